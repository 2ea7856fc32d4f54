/* tests/simt/simt_test.h - what tests over the shim share: numbers on the device, and processes that die. */
#ifndef TESTS_SIMT_SIMT_TEST_H
#define TESTS_SIMT_SIMT_TEST_H
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <string>
#include <vector>

extern "C" {
#include <cmocka.h>
}

#include "kernels/cuda/launch.h"
#include "tests/simt/simt_control.h"

/* Set by the build where ThreadSanitizer watches. */
#if defined(__SANITIZE_THREAD__)
#define SIMT_TSAN 1
#else
#define SIMT_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#else
#define SIMT_ASAN 0
#endif

static const launch_to eager = { nullptr, false };

/* Device memory with a life of its own. */
template <class T> struct on_device {
    T *p;
    size_t n;
    explicit on_device(size_t count) : p(nullptr), n(count) {
        if (cudaMalloc(&p, n * sizeof(T))) fail_msg("cudaMalloc: %s", cudaGetErrorString(cudaGetLastError()));
    }
    explicit on_device(const std::vector<T> &v) : on_device(v.size()) { put(v.data()); }
    template <size_t N> explicit on_device(const T (&v)[N]) : on_device(N) { put(v); }
    on_device(const on_device &) = delete;
    ~on_device() { cudaFree(p); }
    void put(const T *from) {
        if (cudaMemcpy(p, from, n * sizeof(T), cudaMemcpyHostToDevice)) fail_msg("cannot copy to the device");
    }
    std::vector<T> host() const {
        std::vector<T> v(n);
        if (cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost)) fail_msg("cannot copy from the device");
        return v;
    }
};

/* Who explains crashes, before cmocka takes them for failed tests. */
static struct sigaction crash_first[2];
[[gnu::constructor]] static void crash_first_get() {
    sigaction(SIGSEGV, nullptr, &crash_first[0]);
    sigaction(SIGABRT, nullptr, &crash_first[1]);
}

/* Runs f in a process of its own, which must end badly; returns what it said. */
static inline std::string death(void (*f)()) {
    int ends[2], how;
    fflush(nullptr);
    if (pipe(ends)) fail_msg("no pipe");
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        sigaction(SIGSEGV, &crash_first[0], nullptr);
        sigaction(SIGABRT, &crash_first[1], nullptr);
        alarm(20);
        f();
        exit(0);
    }
    close(ends[1]);
    std::string text;
    char part[4096];
    for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) text.append(part, (size_t)n);
    close(ends[0]);
    waitpid(child, &how, 0);
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0) fail_msg("nothing was found; it said: %s", text.c_str());
    return text;
}

#define assert_contains(text, part)                                                                                    \
    do {                                                                                                               \
        if ((text).find(part) == std::string::npos) fail_msg("no \"%s\" in: %s", part, (text).c_str());                \
    } while (0)
#endif
