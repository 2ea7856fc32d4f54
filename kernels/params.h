/* kernels/params.h - everything that changes between two replays of a step, in one block at a fixed address.
 *
 * `in` is written by the host before a replay. `st` belongs to the ops and lives where they run. `out` is what the host
 * reads after the replay; seq is stored last. Op arguments hold addresses into this block, never copies of its values.
 */
#ifndef KERNELS_PARAMS_H
#define KERNELS_PARAMS_H
#include <stdint.h>

enum {
    NODES_MAX = 32,    /* rows of the widest verify pass, anchor included */
    DEPTH_MAX = 31,    /* deepest node below the anchor */
    PREFILL_MAX = 256, /* rows of the largest prefill chunk */
    STAMPS = 4,        /* start, draft done (0: no part of the step), verify done, end */
    PICK_TOP_MAX = 20, /* alternatives that are told beside a choice */
    PICK_BIAS_MAX = 1024,
    CONF_CLASSES = 16, /* of a draft candidate's own probability, tree_conf() */
};

typedef enum step_kind {
    STEP_PREFILL, /* prompt rows, head on the last one when asked */
    STEP_PLAIN,   /* the anchor alone */
    STEP_ROUND,   /* draft context, draft block, verify, commit */
    STEP_CONTEXT, /* draft context rows only: catch-up after prefill and plain stretches */
    STEP_PART     /* the first or second of three parts of a round: commits nothing */
} step_kind;

/* How a token is chosen; the same for every row of every step of a request. */
typedef struct pick_params {
    float temperature; /* below 1e-5: greedy */
    float top_p;       /* 1: off */
    float min_p;       /* 0: off */
    int32_t top_k;     /* 0: off */
    uint64_t seed;
    float repeat;              /* 0 or 1: off */
    float presence, frequency; /* 0: off */
    int32_t end_from;          /* no end token is chosen for a position below this; 0: off */
} pick_params;

typedef struct pick_bias {
    int32_t id;
    float value;
} pick_bias;

/* Beside the block, at fixed addresses like it: what a choice has to know of single tokens. The host writes it
 * between steps and counts what was emitted, never what was proposed: a rejected row leaves no trace. Ops only read it;
 * but a copy of their own is brought up to date by begin. */
typedef struct pick_lists {
    int32_t *count; /* [V] occurrences in prompt and answer, the anchor included */
    int32_t *seen;  /* [V] the tokens that occur, in order of appearance */
    int32_t *end;   /* [V] the model's end tokens */
    int32_t n_seen, n_end, n_bias;
    pick_bias bias[PICK_BIAS_MAX]; /* several for one token add up */
} pick_lists;

/* What stands behind a choice: log-probabilities of the target's own logits, whatever was done to them to choose. */
typedef struct pick_logprobs {
    float own; /* of the token that was chosen */
    int32_t n; /* likeliest tokens, falling, ties by smaller id */
    int32_t id[PICK_TOP_MAX];
    float logp[PICK_TOP_MAX];
} pick_logprobs;

typedef struct step_in {
    uint32_t seq;         /* number of this replay, echoed in out */
    int32_t base, anchor; /* where to start; base -1: where the last step ended */
    int32_t ctx_len;      /* with base >= 0: positions whose draft context rows are in the ring */
    int32_t rows;         /* prefill: live rows; context: most rows to project in this replay */
    int32_t want_head;    /* prefill: choose a token from the last live row */
    int32_t draft_rows;   /* round: rows of the draft block, anchor included; 1: nothing is drafted */
    int32_t nodes_max;    /* round: most proposals to verify */
    int32_t nodes_min;    /* round: and the fewest, whatever they cost, as long as there are candidates */
    int32_t branch;       /* round: candidates of a draft row that may become nodes; 1: a chain */
    int32_t n_proposals;  /* round: given proposals, a chain; they share the tree with the draft's */
    int32_t proposals[DEPTH_MAX];
    float proposal_logp[DEPTH_MAX]; /* log-probability that all proposals up to this one are right; never rises */
    /* Width by cost (Dinkelbach's rule for the largest tokens per time): cost[r] = tokens that other rounds bring in
     * the time of a pass of r rows. Of the nodes, most probable first, as many are kept as make the sum of their
     * probabilities less cost[r] largest. All 0: every node. */
    float cost[NODES_MAX + 1];
    float min_logp;           /* no node whose path is less probable; -INFINITY: off */
    int32_t calibrated;       /* 0: the draft's log-probabilities are taken as they are */
    float conf[CONF_CLASSES]; /* log of the share of candidates of this class that proved right below a right parent */
    pick_params pick;
    int32_t masked;              /* 1: every head row chooses among the tokens that its mask allows (pick_args) */
    int32_t logprobs;            /* alternatives that are told beside every choice; -1: no log-probabilities */
    int32_t tokens[PREFILL_MAX]; /* prefill */
    /* Where the lists lie with the ops and not with the host (begin_args.lists): tokens that the host has counted in
     * its own since the last step. */
    int32_t n_counted, counted[PREFILL_MAX];
} step_in;

/* The live rows of one part of a step. Row 0 is the anchor (or the first prompt row).
 *
 * The position rule: for every row each visible position has exactly one key. Positions below `base` are found at their
 * own index; position base + d is found at index base + path[row][d]. In a chain path[row][d] == d. */
typedef struct row_set {
    int32_t n;
    int32_t base;
    int32_t chain; /* 1: row r stands at position base + r, and path and parent are not read */
    int32_t token[PREFILL_MAX];
    int32_t pos[PREFILL_MAX];
    int32_t parent[NODES_MAX];              /* -1 for the anchor; parents come first */
    uint8_t path[NODES_MAX][DEPTH_MAX + 1]; /* node on the row's path at each depth up to its own */
} row_set;

/* Who proposed a node, added when both did. */
enum { NODE_DRAFT = 1, NODE_GIVEN = 2 };

typedef struct node_note {
    float score;    /* log-probability of the path to it */
    uint8_t parent; /* its parent's node */
    uint8_t source; /* NODE_* */
    uint8_t conf;   /* class of the draft's candidate */
} node_note;

typedef struct step_state {
    int32_t base, anchor;                   /* committed rows = position of the anchor; the next row 0 */
    int32_t ctx_len;                        /* positions whose context rows are in the draft's ring */
    row_set rows;                           /* rows the target sees */
    row_set draft;                          /* rows of the draft block */
    row_set ctx;                            /* positions to be projected into the draft's ring */
    int32_t head_n, head_first;             /* rows that go through the target's head */
    int32_t draft_head_n, draft_head_first; /* and through the draft's */
    node_note note[NODES_MAX];              /* of rows */
    int32_t choice[NODES_MAX];              /* the target's choice per head row */
    pick_logprobs logprobs[NODES_MAX];      /* likewise, when they are asked for */
    int32_t n_accepted;                     /* rows committed by the last accept, anchor included */
    int32_t accepted[DEPTH_MAX + 1];        /* their nodes, ascending */
    int32_t move_base;                      /* base before the last accept */
} step_state;

/* What an op on a device found in the block that cannot be; it went on with the nearest value that can. On the CPU such
 * a value ends the process. */
typedef enum step_fault { FAULT_NONE, FAULT_BEGIN, FAULT_TREE, FAULT_PICK, FAULT_ACCEPT } step_fault;

typedef struct step_out {
    int32_t n, token[DEPTH_MAX + 1];       /* emitted: accepted proposals, then the target's own token */
    pick_logprobs logprobs[DEPTH_MAX + 1]; /* by token, when they are asked for */
    int32_t base, ctx_len;                 /* after the step */
    int32_t rows;                          /* rows of the target pass */
    int32_t drafted, accepted;             /* proposals verified, and of these accepted */
    int32_t proposal[NODES_MAX];           /* what was verified, by node - 1 */
    node_note note[NODES_MAX];             /* by node */
    int32_t path[DEPTH_MAX + 1];           /* nodes that were committed, the anchor's 0 first; n of them */
    int32_t draft_depth;                   /* rows of the draft's block that proposed */
    uint8_t draft_conf[DEPTH_MAX];         /* class of the likeliest candidate of each */
    int32_t ctx_rows;                      /* context rows that were projected before */
    int32_t fault;                         /* step_fault, the last one of the step */
    int64_t stamp[STAMPS];
    uint32_t seq;
} step_out;

typedef struct step_params {
    step_in in;
    step_state st;
    step_out out;
} step_params;
#endif
