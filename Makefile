# skiff. `make help` lists the targets; objects go to build/<variant>/.
#   make SAN=address,undefined ...   the same with sanitizers, in a folder of its own
#   make SIMT=1 ...                  the same with the CUDA sources, which then run on the CPU (tests/simt)
#   make V=1 ...                     whole command lines
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin CXX),default)
CXX := g++
endif
SAN     ?=
SIMT    ?=
V       ?= 0
comma   := ,
SAN_OF   = $(if $(1),san-$(subst $(comma),-,$(1)))
SIMT_OF  = build/simt$(patsubst %,-%,$(call SAN_OF,$(1)))
B       := $(if $(SIMT),$(call SIMT_OF,$(SAN)),build/$(or $(call SAN_OF,$(SAN)),release))
prefix  ?= /usr/local
JOBS    := $(shell nproc)

WARN    := -Wall -Wextra -Werror -Wshadow=local -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wundef -Wpointer-arith
# Fused operations are written, never contracted by the compiler; no fast-math anywhere.
CFLAGS  := -std=gnu17 -D_GNU_SOURCE -O2 -g $(WARN) -fno-math-errno -ffp-contract=off -I.
LDFLAGS :=
LDLIBS  := -ljansson -lpcre2-8 -levent_core -levent_extra -lm -lpthread
ifneq ($(SAN),)
SANFLAGS := -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all -DSKIFF_DEBUG=1
CFLAGS   += $(SANFLAGS)
LDFLAGS  += -fsanitize=$(SAN)
endif
LINK := $(CC)

# CUDA sources as C++ over the shim. The shim tells ThreadSanitizer what its fibers do, and is not watched itself.
ifneq ($(SIMT),)
CFLAGS   += -DSKIFF_CUDA=1
CXXFLAGS := -std=gnu++20 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror -Wshadow=local -Wundef -Wpointer-arith -Wno-unknown-pragmas -Wno-missing-field-initializers \
            -fno-math-errno -ffp-contract=off -fno-strict-aliasing -I. -DSKIFF_CUDA=1 '-DSKIFF_SIMT="tests/simt/simt.h"' $(SANFLAGS)
SHIMFLAGS := $(if $(filter thread,$(subst $(comma), ,$(SAN))),-fno-sanitize=thread -DSIMT_TSAN=1)
LINK := $(CXX)
endif

# Sources of kernels/simd are compiled once per instruction set; nothing else gets such flags.
ISA_avx2       := -mavx2 -mfma
ISA_avx512     := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma
ISA_avx512bf16 := $(ISA_avx512) -mavx512bf16
ISAS           := avx2 avx512 avx512bf16

SRC  := $(filter-out engine/cli/main.c,$(wildcard engine/base/*.c engine/load/*.c engine/text/*.c engine/core/*.c \
        engine/server/*.c engine/server/net/*.c engine/cli/*.c kernels/*.c kernels/ref/*.c graphs/*.c target/*.c draft/*.c))
SIMD := $(wildcard kernels/simd/*.c)
CUDA := $(if $(SIMT),$(patsubst %,$(B)/%.o,$(wildcard kernels/cuda/*.cu graphs/cuda/*.cu)))
SHIM := $(if $(SIMT),$(patsubst %,$(B)/%.o,$(wildcard tests/simt/simt_*.cpp)))
LIB  := $(SRC:%.c=$(B)/%.o) $(CUDA) $(SHIM) $(B)/engine/load/demo.o $(foreach i,$(ISAS),$(SIMD:kernels/simd/%.c=$(B)/kernels/simd/$(i)/%.o))

DEPS_BUILD := gcc libc6-dev libevent-dev libjansson-dev libpcre2-dev
DEPS_TEST  := libcmocka-dev python3 curl g++ binutils
DEPS_LINT  := clang-format cppcheck

ifeq ($(V),0)
Q   := @
say = @printf '  %-5s %s\n' $(1) $(2)
else
Q   :=
say = @:
endif

## building
all: deps ## build ./skiff, with the demo pair inside
	@$(MAKE) -j$(JOBS) skiff
.PHONY: all

deps: ## install the Debian packages that the build needs, where that is allowed
	@.ci/deps $(DEPS_BUILD)
deps-test: deps
	@.ci/deps $(DEPS_TEST)
.PHONY: deps deps-test

serve: deps ## build, then serve the demo pair on 127.0.0.1:8000 (the next free port if that is taken)
	@$(MAKE) -j$(JOBS) skiff
	@exec ./skiff serve
.PHONY: serve

skiff: $(B)/skiff
	@ln -sf $< $@.new && mv -f $@.new $@
.PHONY: skiff

$(B)/skiff: $(B)/engine/cli/main.o $(B)/libskiff.a
	$(call say,LINK,$@)
	$(Q)$(LINK) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(B)/libskiff.a: $(LIB)
	$(call say,AR,$@)
	@rm -f $@
	$(Q)ar rcs $@ $(LIB)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/%.o: %.S
	@mkdir -p $(@D)
	$(call say,AS,$<)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(SHIM): CXXFLAGS += $(SHIMFLAGS)
$(B)/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS) -MMD -MP -x c++ -c -o $@ $<
$(B)/%.cpp.o: %.cpp
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS) -MMD -MP -c -o $@ $<

# The assembler does not tell which files it includes.
$(B)/engine/load/demo.o: $(wildcard target/demo/* draft/demo/*)

define simd_rule
$(B)/kernels/simd/$(1)/%.o: kernels/simd/%.c
	@mkdir -p $$(@D)
	$$(call say,CC,"$$< ($(1))")
	$$(Q)$$(CC) $$(CFLAGS) -O3 $$(ISA_$(1)) -DSIMD_ISA=$(1) -DSIMD_$(1)=1 -MMD -MP -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call simd_rule,$(i))))

## tests
UNIT   := $(patsubst %.c,$(B)/%,$(wildcard tests/unit/test_*.c))
MODEL  := $(patsubst %.c,$(B)/%,$(wildcard tests/model/test_*.c))
SIMT_C    := $(patsubst %.c,$(B)/%,$(wildcard tests/simt/test_*.c))
SIMT_SELF := $(patsubst %.cpp,$(B)/%,$(wildcard tests/simt/test_simt*.cpp))
SIMT_CXX  := $(filter-out $(SIMT_SELF),$(patsubst %.cpp,$(B)/%,$(wildcard tests/simt/test_*.cpp)))
SIMT_OPS  := $(foreach t,attn linear pick rows streams,$(B)/tests/simt/test_cuda_$(t))
OPS    := $(if $(wildcard tests/ops/*.c),$(B)/tests/ops/test_ops)
SCRIPT := $(B)/tests/e2e/skiff-script
RUN    := python3 tests/run.py

$(UNIT) $(MODEL) $(SIMT_C): $(B)/%: $(B)/%.o $(B)/libskiff.a
	$(call say,LINK,$@)
	$(Q)$(LINK) $(LDFLAGS) $(TEST_LDFLAGS) -o $@ $< $(B)/libskiff.a $(LDLIBS) -lcmocka

# A test that wraps functions says so at its top: "link: FLAGS".
$(foreach t,$(UNIT) $(MODEL) $(SIMT_C) $(SIMT_CXX),$(eval $(t): TEST_LDFLAGS := $(shell sed -n 's|^.*link: \(-[^ ]*\).*|\1|p' $(wildcard $(t:$(B)/%=%.c) $(t:$(B)/%=%.cpp)))))

$(OPS): $(patsubst %.c,$(B)/%.o,$(wildcard tests/ops/*.c)) $(B)/libskiff.a
	$(call say,LINK,$@)
	$(Q)$(LINK) $(LDFLAGS) -o $@ $^ $(LDLIBS) -lcmocka

# The shim's own tests need nothing of skiff, so they are quickly built with any sanitizer.
$(SIMT_SELF): $(B)/%: $(B)/%.cpp.o $(SHIM)
	$(call say,LINK,$@)
	$(Q)$(LINK) $(LDFLAGS) -o $@ $^ -lcmocka
# Tests of kernels take the cases of tests/ops; those of ops alone are quickly built with any sanitizer, too.
CASES   := $(B)/tests/simt/cuda_case.cpp.o $(patsubst %.c,$(B)/%.o,$(wildcard tests/ops/case*.c))
KERNELS := $(patsubst %.c,$(B)/%.o,$(wildcard engine/base/*.c kernels/*.c kernels/ref/*.c) engine/core/pick_lists.c) $(CUDA) $(SHIM)
$(B)/libkernels.a: $(KERNELS)
	$(call say,AR,$@)
	@rm -f $@
	$(Q)ar rcs $@ $(KERNELS)
$(SIMT_OPS): $(B)/libkernels.a
$(filter-out $(SIMT_OPS),$(SIMT_CXX)): $(B)/libskiff.a
$(SIMT_CXX): $(B)/%: $(B)/%.cpp.o $(CASES)
	$(call say,LINK,$@)
	$(Q)$(LINK) $(LDFLAGS) $(TEST_LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS) -lcmocka

# The server over a scripted engine: its objects come first, so the archive's engine stays out.
$(SCRIPT): $(patsubst %.c,$(B)/%.o,$(wildcard tests/e2e/*.c)) $(B)/libskiff.a
	$(call say,LINK,$@)
	$(Q)$(LINK) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# "@": alone, because it measures time or uses every processor.
LOSSLESS = $(foreach t,1 2,"$(if $(filter 2,$t),@)lossless-$(t)-threads=./$(B)/skiff verify lossless --prompts tests/prompts.jsonl --limit 32 --predict 200 --threads $(t) --shapes chains") \
           "lossless-combinations=./$(B)/skiff verify lossless --prompts tests/prompts.jsonl --limit 6 --predict 60 --threads 1 --shapes combinations" \
           "lossless-fp8=./$(B)/skiff verify lossless --prompts tests/prompts.jsonl --limit 4 --predict 50 --threads 1 --shapes combinations --kv-dtype fp8_e4m3"
GOLDEN   = "golden=./$(B)/skiff verify golden tests/golden"
TEXT     = "text=./$(B)/skiff verify text tests/golden"
E2E      = "@e2e-server=python3 tests/e2e/test_server.py ./$(SCRIPT)" "@e2e-demo=python3 tests/e2e/test_demo.py ./$(B)/skiff"
LINT     = "lint=tests/lint/run.sh" "lint-selftest=tests/lint/selftest.sh"

# Hostile files and requests must end in one clear error without a finding of the sanitizers.
SAN_B    := build/san-address-undefined
SAN_RUN  = $(patsubst $(B)/%,$(SAN_B)/%,$(UNIT) $(OPS)) "san-text=./$(SAN_B)/skiff verify text tests/golden" "@san-e2e-demo=python3 tests/e2e/test_demo.py ./$(SAN_B)/skiff"

# The shim's own tests also run with the sanitizers that it has to work with, the ops with the one that sees what is
# read or written beside a block, and some of them with the one that sees threads that do not wait for each other.
SIMT_SAN := address,undefined thread
SIMT_IN_address,undefined = $(SIMT_SELF) $(SIMT_OPS)
SIMT_IN_thread            = $(SIMT_SELF) $(filter %_linear %_rows,$(SIMT_OPS))
SIMT_RUN  = $(patsubst $(B)/%,$(call SIMT_OF,$(SAN))/%,$(SIMT_C) $(SIMT_SELF) $(SIMT_CXX)) \
            $(if $(SAN),,$(foreach s,$(SIMT_SAN),$(patsubst $(B)/%,$(call SIMT_OF,$(s))/%,$(SIMT_IN_$(s)))))

test: deps-test ## everything: unit, ops, simt, golden, model, lossless, e2e, lint, sanitizers; the last line counts
	@.ci/deps $(DEPS_LINT) || true
	@$(MAKE) -j$(JOBS) $(B)/skiff $(UNIT) $(MODEL) $(OPS) $(SCRIPT)
	@$(if $(SAN),,$(MAKE) -j$(JOBS) SAN=address,undefined san-programs)
	@$(MAKE) simt-builds
	@$(RUN) --jobs 2 $(LOSSLESS) $(UNIT) $(OPS) $(SIMT_RUN) $(MODEL) $(GOLDEN) $(TEXT) $(E2E) $(if $(SAN),,$(SAN_RUN)) $(LINT)
san-programs: $(B)/skiff $(UNIT) $(OPS)
simt-builds:
	@$(MAKE) -j$(JOBS) SIMT=1 simt-programs
	@$(if $(SAN),,$(foreach s,$(SIMT_SAN),$(MAKE) -j$(JOBS) SIMT=1 SAN=$(s) simt-sanitized &&) true)
simt-programs: $(SIMT_C) $(SIMT_SELF) $(SIMT_CXX)
simt-sanitized: $(SIMT_IN_$(SAN))
.PHONY: san-programs simt-builds simt-programs simt-sanitized
test-unit: deps-test $(B)/skiff $(UNIT) ## tests/unit and the text cases; T=pattern selects of tests/unit
	@$(RUN) $(if $(T),$(filter $(B)/tests/unit/$(T),$(UNIT)),$(UNIT) $(TEXT))
test-ops: deps-test $(OPS) ## every op, case by case, against the scalar reference
	@$(RUN) $(OPS)
test-simt: deps-test simt-builds ## CUDA kernels as fibers on the CPU, and the shim that they run on
	@$(RUN) $(SIMT_RUN)
test-model: deps-test skiff $(MODEL) ## the promises on the demo pair: golden, invariance, purity, acceptance, lossless
	@$(RUN) $(MODEL) $(GOLDEN) $(LOSSLESS)
test-e2e: deps-test skiff $(SCRIPT) ## the server over real sockets
	@$(RUN) $(E2E)
lint: ## include directions, headers alone, forbidden words, clang-format, cppcheck
	@.ci/deps $(DEPS_LINT) python3 || true
	@$(RUN) $(LINT)
.PHONY: test test-unit test-ops test-simt test-model test-e2e lint

## measuring, formatting, installing
bench: all ## prefill, plain decoding, every way to speculate on the demo mix; writes perf/results
	@mkdir -p perf/results
	./skiff bench --prompts tests/prompts.jsonl --json perf/results/bench.json
	./skiff bench spec --prompts tests/prompts.jsonl --json perf/results/spec.json --plots perf/results
format: ## clang-format over all sources
	@git ls-files -co --exclude-standard '*.c' '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i
install: all ## to $(prefix), below DESTDIR
	install -D -m 755 $(B)/skiff $(DESTDIR)$(prefix)/bin/skiff
	install -D -m 644 engine/cli/skiff.1 $(DESTDIR)$(prefix)/share/man/man1/skiff.1
clean: ## remove build/ and ./skiff
	rm -rf build skiff
help: ## this list
	@awk -F ':.*## ' '/^## /{ printf "\n%s\n", substr($$0, 4) } /^[a-z][a-z0-9-]*:.*## /{ printf "  %-12s %s\n", $$1, $$2 }' Makefile
.PHONY: bench format install clean help

-include $(shell find $(B) -name '*.d' 2>/dev/null)
