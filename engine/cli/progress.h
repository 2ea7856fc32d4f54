/* engine/cli/progress.h - one progress bar on stderr, when that is a terminal. Drawn only for work that lasts. */
#ifndef ENGINE_CLI_PROGRESS_H
#define ENGINE_CLI_PROGRESS_H

void progress_show(const char *what, float fraction);
void progress_clear(void); /* removes the bar; the next show starts a new one */
#endif
