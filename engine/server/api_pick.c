#include "engine/server/api_pick.h"

static status read_seed(api_reader *r, api_params *p) {
    json_int_t seed = -1;
    TRY(api_read_int(r, "seed", INT64_MIN, INT64_MAX, &seed));
    p->pick.seed = (uint64_t)seed;
    return OK;
}

static status read_filters(api_reader *r, api_params *p) {
    json_int_t top_k = p->pick.top_k;
    TRY(api_read_float(r, "temperature", 0, false, 100, &p->pick.temperature));
    TRY(api_read_float(r, "top_p", 0, true, 1, &p->pick.top_p));
    TRY(api_read_float(r, "min_p", 0, false, 1, &p->pick.min_p));
    TRY(api_read_int(r, "top_k", -1, INT32_MAX, &top_k)); /* -1 is off, a habit of other servers */
    p->pick.top_k = top_k < 0 ? 0 : (int32_t)top_k;
    return OK;
}

static status read_penalties(api_reader *r, api_params *p) {
    TRY(api_read_float(r, "repeat_penalty", 0, true, REPEAT_MAX, &p->pick.repeat));
    TRY(api_read_float(r, "repetition_penalty", 0, true, REPEAT_MAX, &p->pick.repeat)); /* of two names the usual one */
    TRY(api_read_float(r, "presence_penalty", -PENALTY_LIMIT, false, PENALTY_LIMIT, &p->pick.presence));
    return api_read_float(r, "frequency_penalty", -PENALTY_LIMIT, false, PENALTY_LIMIT, &p->pick.frequency);
}

/* ---- logit_bias ---- */

/* An id as other APIs write it, digits only; -1: something else, or too large to be one. */
static json_int_t id_of_name(const char *name) {
    json_int_t id = 0;
    if (!*name) return -1;
    for (; *name; name++) {
        if (*name < '0' || *name > '9' || id > INT32_MAX) return -1;
        id = id * 10 + *name - '0';
    }
    return id;
}

static status add_bias(api_reader *r, api_params *p, json_int_t id, const json_t *v, int32_t vocab) {
    double bias = json_number_value(v);
    api_read_name(r, "logit_bias");
    if (id < 0 || id >= vocab) return err_set(r->e, ERR_REQUEST, "logit_bias takes token ids from 0 to %d", vocab - 1);
    if (!json_is_number(v) || !(bias >= -BIAS_LIMIT && bias <= BIAS_LIMIT))
        return err_set(r->e, ERR_REQUEST, "logit_bias of token %lld must be a number from -%d to %d", (long long)id,
                       BIAS_LIMIT, BIAS_LIMIT);
    if (p->n_bias == BIAS_MAX) return err_set(r->e, ERR_REQUEST, "logit_bias takes at most %d tokens", BIAS_MAX);
    p->bias[p->n_bias++] = (token_bias){ (int32_t)id, (float)bias };
    return OK;
}

/* {"id": bias, ...} or [[id, bias], ...]. */
static status read_bias(api_reader *r, api_params *p, int32_t vocab) {
    const json_t *v = api_read_find(r, "logit_bias");
    if (!v) return OK;
    if (json_is_object(v)) {
        const char *name;
        json_t *bias;
        json_object_foreach((json_t *)v, name, bias) TRY(add_bias(r, p, id_of_name(name), bias, vocab));
        return OK;
    }
    if (!json_is_array(v)) return api_read_wrong_type(r, "logit_bias", "an object or an array of pairs", v);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *pair = json_array_get(v, i), *id = json_array_get(pair, 0);
        if (json_array_size(pair) != 2 || !json_is_integer(id)) {
            api_read_name(r, "logit_bias");
            return err_set(r->e, ERR_REQUEST, "logit_bias[%zu] must be a pair [token id, bias]", i);
        }
        TRY(add_bias(r, p, json_integer_value(id), json_array_get(pair, 1), vocab));
    }
    return OK;
}

/* ---- lengths and log-probabilities ---- */

static status read_min_tokens(api_reader *r, api_params *p) {
    json_int_t n = 0;
    TRY(api_read_int(r, "min_tokens", 0, INT32_MAX, &n));
    if (p->max_new && n > p->max_new) {
        api_read_name(r, "min_tokens");
        return err_set(r->e, ERR_REQUEST, "min_tokens must be at most max_tokens, %d, not %lld", p->max_new,
                       (long long)n);
    }
    p->pick.min_new = (int32_t)n;
    return OK;
}

static status read_logprobs(api_reader *r, api_params *p) {
    bool wanted = false;
    json_int_t n = 0;
    TRY(api_read_bool(r, "logprobs", &wanted));
    TRY(api_read_int(r, "top_logprobs", 0, LOGPROBS_MAX, &n));
    if (n && !wanted) {
        api_read_name(r, "top_logprobs");
        return err_set(r->e, ERR_REQUEST, "top_logprobs needs logprobs to be true");
    }
    p->logprobs = wanted ? (int32_t)n : -1;
    return OK;
}

status api_pick_read(api_reader *r, api_params *p, int32_t vocab) {
    TRY(read_seed(r, p));
    TRY(read_filters(r, p));
    TRY(read_penalties(r, p));
    TRY(read_bias(r, p, vocab));
    TRY(read_min_tokens(r, p));
    return read_logprobs(r, p);
}
