/* tests/simt/simt_count.cpp - what was launched, by kernel. */
#include <deque>
#include <string>
#include <unordered_map>
#include "tests/simt/simt_int.h"

namespace simt {

/* By the address of the name: there are a few per kernel, one for each place that launches it. */
static std::deque<kernel_stats> list;
static std::unordered_map<const char *, kernel_stats *> by_address;

kernel_stats *stats_of(const char *name) {
    auto it = by_address.find(name);
    if (it != by_address.end()) return it->second;
    for (kernel_stats &s : list)
        if (!strcmp(s.name, name)) return by_address[name] = &s;
    list.push_back({ name, 0, 0, 0 });
    return by_address[name] = &list.back();
}

/* "(name_k<4, true>)" is name_k, with brackets for the sake of the comma. */
static bool is_called(const char *launched, const char *name) {
    if (!strcmp(launched, name)) return true;
    launched += *launched == '(';
    size_t n = strlen(name);
    return !strncmp(launched, name, n) && (launched[n] == '<' || launched[n] == ')');
}

} // namespace simt

using namespace simt;

extern "C" {

simt_totals simt_counts(void) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    simt_totals t = totals;
    for (const kernel_stats &s : list) t.streamed += s.streamed;
    return t;
}

simt_kernel_count simt_count_of(const char *name) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    simt_kernel_count sum = { name, 0, 0, 0 };
    for (const kernel_stats &s : list) {
        if (!is_called(s.name, name)) continue;
        sum.launches += s.launches;
        sum.blocks += s.blocks;
        sum.streamed += s.streamed;
    }
    return sum;
}

size_t simt_count_list(simt_kernel_count *out, size_t max) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    for (size_t i = 0; i < list.size() && i < max; i++)
        out[i] = { list[i].name, list[i].launches, list[i].blocks, list[i].streamed };
    return list.size();
}

void simt_reset_counts(void) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    totals = {};
    for (kernel_stats &s : list) s.launches = s.blocks = s.streamed = 0;
}

} // extern "C"
