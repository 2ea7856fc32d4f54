# skiff. `make help` lists the targets; objects go to build/<variant>/.
#   make SAN=address,undefined ...   the same with sanitizers, in a folder of its own
#   make SIMT=1 ...                  the same with the CUDA sources, which then run on the CPU (tests/simt)
#   make CUDA=1 ...                  the same with the CUDA backend; CUDA_ARCH=sm_90a: for one architecture only
#   make STATIC=1 ...                a program for another machine: libc is all it needs, with CUDA cuBLAS as well
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
CUDA    ?=
CUDA_ARCH ?=
STATIC  ?=
V       ?= 0
comma   := ,
empty   :=
SAN_OF   = $(if $(1),san-$(subst $(comma),-,$(1)))
SIMT_OF  = build/simt$(patsubst %,-%,$(call SAN_OF,$(1)))
HOST_B  := build/$(or $(call SAN_OF,$(SAN)),release)
B       := $(if $(SIMT),$(call SIMT_OF,$(SAN)),$(if $(CUDA),build/cuda$(CUDA_ARCH:%=-%),$(HOST_B)))
prefix  ?= /usr/local
JOBS    := $(shell nproc)

WARN    := -Wall -Wextra -Werror $(if $(findstring clang,$(CC)),,-Wshadow=local) -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wundef -Wpointer-arith
# Fused operations are written, never contracted by the compiler; no fast-math anywhere.
CFLAGS  := -std=gnu17 -D_GNU_SOURCE -O2 -g $(WARN) -fno-math-errno -ffp-contract=off -I.
LDFLAGS := $(if $(STATIC),-static-libgcc -static-libstdc++)
LDLIBS  := $(if $(STATIC),-Wl$(comma)-Bstatic $(B)/libjansson.a,-ljansson) -lpcre2-8 -levent_core -levent_extra $(if $(STATIC),-Wl$(comma)-Bdynamic) -lm -lpthread
ifneq ($(SAN),)
SANFLAGS := -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all -DSKIFF_DEBUG=1
CFLAGS   += $(SANFLAGS)
LDFLAGS  += -fsanitize=$(SAN)
endif
LINK := $(CC)

# CUDA sources as C++ over the shim. The shim tells ThreadSanitizer what its fibers do, and is not watched itself.
ifneq ($(SIMT),)
CXXFLAGS := -std=gnu++20 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror -Wshadow=local -Wundef -Wpointer-arith -Wno-unknown-pragmas -Wno-missing-field-initializers \
            -fno-math-errno -ffp-contract=off -fno-strict-aliasing -I. '-DSKIFF_SIMT="tests/simt/simt.h"' $(SANFLAGS)
SHIMFLAGS := $(if $(filter thread,$(subst $(comma), ,$(SAN))),-fno-sanitize=thread -DSIMT_TSAN=1)
LINK := $(CXX)
endif

# CUDA sources by nvcc. For all cards the last architecture is kept as PTX, too, for those that came later; without the
# "a", which would bind it to one chip. ptxas tells registers and spills, which are kept beside the object (tests/cuda).
ifneq ($(CUDA),)
CUDA_ARCHS := $(or $(CUDA_ARCH),sm_80 sm_90a sm_100a sm_120a)
CUDA_HOME  ?= /usr/local/cuda
NVCC       ?= $(or $(shell command -v nvcc),$(CUDA_HOME)/bin/nvcc)
CUDA_ROOT  := $(patsubst %/bin/,%,$(dir $(realpath $(NVCC))))
NVFLAGS    := -std=c++20 -D_GNU_SOURCE -O3 -fmad=false -Werror all-warnings -Xptxas -v -ccbin $(CXX) --threads 0 -I. \
              $(foreach a,$(CUDA_ARCHS:sm_%=%),-gencode arch=compute_$(a)$(comma)code=sm_$(a)) \
              $(foreach a,$(if $(CUDA_ARCH),,$(patsubst %a,%,$(lastword $(CUDA_ARCHS:sm_%=%)))),-gencode arch=compute_$(a)$(comma)code=compute_$(a)) \
              $(addprefix -Xcompiler ,-Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers -fno-math-errno -ffp-contract=off -fno-strict-aliasing $(SANFLAGS))
LDLIBS     += -L$(CUDA_ROOT)/lib64 -lcudart_static -ldl -lrt
LINK       := $(CXX)
endif

# Sources of kernels/simd are compiled once per instruction set; nothing else gets such flags.
ISA_avx2       := -mavx2 -mfma
ISA_avx512     := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma
ISA_avx512bf16 := $(ISA_avx512) -mavx512bf16
ISAS           := avx2 avx512 avx512bf16

SRC  := $(filter-out engine/cli/main.c,$(wildcard engine/base/*.c engine/load/*.c engine/text/*.c engine/core/*.c \
        engine/server/*.c engine/server/net/*.c engine/cli/*.c kernels/*.c kernels/ref/*.c graphs/*.c target/*.c draft/*.c))
SIMD := $(wildcard kernels/simd/*.c)
CU   := $(if $(SIMT)$(CUDA),$(patsubst %,$(B)/%.o,$(wildcard kernels/cuda/*.cu)))
CU   += $(if $(SIMT),$(B)/tests/simt/lt_model.cpp.o)
SHIM := $(if $(SIMT),$(patsubst %,$(B)/%.o,$(wildcard tests/simt/simt_*.cpp)))
# C objects are the same with and without the CUDA backend; what takes its place is left out.
SRC  := $(if $(SIMT)$(CUDA),$(filter-out kernels/device_none.c,$(SRC)),$(SRC))
LIB  := $(SRC:%.c=$(HOST_B)/%.o) $(CU) $(SHIM) $(HOST_B)/engine/load/demo.o $(foreach i,$(ISAS),$(SIMD:kernels/simd/%.c=$(HOST_B)/kernels/simd/$(i)/%.o))

DEPS_BUILD := gcc libc6-dev libevent-dev libjansson-dev libpcre2-dev
DEPS_TEST  := libcmocka-dev python3 python3-venv curl g++ binutils
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

cuda: deps ## build ./skiff with the CUDA backend; CUDA_ARCH=sm_90a: for one kind of GPU only
	@$(MAKE) CUDA=1 nvcc-there
	@$(MAKE) CUDA=1 -j$(JOBS) skiff
nvcc-there:
	@command -v "$(NVCC)" >/dev/null || { echo "nvcc was not found: install the CUDA toolkit, 12.8 or later (nvcc, cudart and cuBLAS with their headers), or say where it is: make cuda NVCC=/path/to/nvcc" >&2; exit 1; }
.PHONY: cuda nvcc-there

deps: ## install the Debian packages that the build needs, where that is allowed
	@.ci/deps $(DEPS_BUILD)
deps-test: deps
	@.ci/deps $(DEPS_TEST)
	@.ci/venv build/venv tests/requirements.txt || true # tests that need it say that they are skipped
venv: ## build/venv with the Python packages of tests/requirements.txt
	@.ci/deps python3 python3-venv
	@.ci/venv build/venv tests/requirements.txt
.PHONY: deps deps-test venv

serve: deps ## build, then serve the demo pair on 127.0.0.1:8000 (the next free port if that is taken)
	@$(MAKE) -j$(JOBS) skiff
	@exec ./skiff serve
.PHONY: serve

skiff: $(B)/skiff
	@ln -sf $< $@.new && mv -f $@.new $@
.PHONY: skiff

$(B)/skiff: $(HOST_B)/engine/cli/main.o $(B)/libskiff.a
	$(call say,LINK,$@)
	$(Q)$(LINK) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# One of its functions has the name of one of ours, which a shared library does not mind.
$(B)/libjansson.a:
	@mkdir -p $(@D)
	$(Q)objcopy --redefine-sym utf8_encode=jansson_utf8_encode $(shell $(CC) -print-file-name=libjansson.a) $@

$(B)/libskiff.a: $(if $(STATIC),| $(B)/libjansson.a)
$(B)/libskiff.a: $(LIB)
	$(call say,AR,$@)
	@rm -f $@
	$(Q)ar rcs $@ $(LIB)

define c_rule
$(1)/%.o: %.c
	@mkdir -p $$(@D)
	$$(call say,CC,$$<)
	$$(Q)$$(CC) $$(CFLAGS) -MMD -MP -c -o $$@ $$<
endef
$(foreach b,$(sort $(B) $(HOST_B)),$(eval $(call c_rule,$(b))))

$(HOST_B)/%.o: %.S
	@mkdir -p $(@D)
	$(call say,AS,$<)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(SHIM): CXXFLAGS += $(SHIMFLAGS)
ifneq ($(CUDA),)
$(B)/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVFLAGS) -MMD -MP -c -o $@ $< >$@.log 2>&1 || { cat $@.log; false; }
else
$(B)/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS) -MMD -MP -x c++ -c -o $@ $<
endif
$(B)/%.cpp.o: %.cpp
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS) -MMD -MP -c -o $@ $<

# The assembler does not tell which files it includes.
$(HOST_B)/engine/load/demo.o: $(wildcard target/demo/* draft/demo/*)

define simd_rule
$(HOST_B)/kernels/simd/$(1)/%.o: kernels/simd/%.c
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
DEVICE := $(if $(SIMT)$(CUDA),$(patsubst %.c,$(B)/%,$(wildcard tests/device/test_*.c)))
SIMT_OPS  := $(foreach t,attn linear pick rows streams,$(B)/tests/simt/test_cuda_$(t))
OPS    := $(if $(wildcard tests/ops/*.c),$(B)/tests/ops/test_ops)
SCRIPT := $(B)/tests/e2e/skiff-script
CONSTR := $(B)/tests/text/constrained
LINES  := $(B)/tests/text/text_lines
RUN    := python3 tests/run.py

$(UNIT) $(MODEL) $(SIMT_C): $(B)/%: $(B)/%.o $(B)/libskiff.a
	$(call say,LINK,$@)
	$(Q)$(LINK) $(LDFLAGS) $(TEST_LDFLAGS) -o $@ $< $(B)/libskiff.a $(LDLIBS) -lcmocka

# A test that wraps functions says so at its top: "link: FLAGS".
$(foreach t,$(UNIT) $(MODEL) $(SIMT_C) $(SIMT_CXX),$(eval $(t): TEST_LDFLAGS := $(shell sed -n 's|^.*link: \(-[^ ]*\).*|\1|p' $(wildcard $(t:$(B)/%=%.c) $(t:$(B)/%=%.cpp)))))

$(OPS): $(patsubst %.c,$(B)/%.o,$(wildcard tests/ops/*.c)) $(B)/libskiff.a
	$(call say,LINK,$@)
	$(Q)$(LINK) $(LDFLAGS) -o $@ $^ $(LDLIBS) -lcmocka

# Without cmocka: they run where little is installed.
$(DEVICE): $(B)/%: $(B)/%.o $(B)/libskiff.a
	$(call say,LINK,$@)
	$(Q)$(LINK) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# The shim's own tests need nothing of skiff, so they are quickly built with any sanitizer.
$(SIMT_SELF): $(B)/%: $(B)/%.cpp.o $(SHIM)
	$(call say,LINK,$@)
	$(Q)$(LINK) $(LDFLAGS) -o $@ $^ -lcmocka
# Tests of kernels take the cases of tests/ops; those of ops alone are quickly built with any sanitizer, too.
CASES   := $(B)/tests/simt/cuda_case.cpp.o $(patsubst %.c,$(B)/%.o,$(wildcard tests/ops/case*.c))
KERNELS := $(patsubst %.c,$(HOST_B)/%.o,$(filter engine/base/% kernels/% engine/core/pick_lists.c,$(SRC))) $(CU) $(SHIM)
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

# Constrained answers behind a pipe, for a program that has them validated by another one.
$(CONSTR): $(B)/tests/text/constrained.o $(B)/libskiff.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# The text side behind a pipe, for the programs that compare it with others.
$(LINES): $(B)/tests/text/text_lines.o $(B)/libskiff.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# Fuzz drivers: tests replay their inputs, libFuzzer looks for more of them (clang; objects of their own).
FUZZ      := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
REPLAYS   := $(FUZZ:%=$(B)/tests/fuzz/replay-%)
REPLAY     = $(foreach f,$(FUZZ),"replay-$(f)=./$(B)/tests/fuzz/replay-$(f) tests/fuzz/corpus/$(f)")
FUZZERS   := $(FUZZ:%=$(B)/tests/fuzz/fuzz-%)
FUZZ_LIB  := $(patsubst %.c,$(B)/%.o,$(filter engine/base/% engine/text/%,$(SRC)) engine/load/cfg.c engine/load/safetensors.c \
             engine/core/reply.c engine/server/api_json.c)
FUZZ_MAKE  = $(MAKE) -j$(JOBS) CC=clang SAN=fuzzer-no-link,address,undefined
FUZZ_B    := build/san-fuzzer-no-link-address-undefined
FUZZ_TIME ?= 60

$(REPLAYS): $(B)/tests/fuzz/replay-%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/fuzz/replay.o $(B)/libskiff.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(FUZZERS): $(B)/tests/fuzz/fuzz-%: $(B)/tests/fuzz/fuzz_%.o $(FUZZ_LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) -fsanitize=fuzzer,address,undefined -o $@ $^ $(LDLIBS)

# "@": alone, because it measures time or uses every processor.
LOSSLESS = $(foreach t,1 2,"$(if $(filter 2,$t),@)lossless-$(t)-threads=./$(B)/skiff verify lossless --prompts tests/prompts.jsonl --limit 16 --predict 120 --threads $(t) --shapes chains") \
           "lossless-combinations=./$(B)/skiff verify lossless --prompts tests/prompts.jsonl --limit 4 --predict 60 --threads 1 --shapes combinations" \
           "lossless-fp8=./$(B)/skiff verify lossless --prompts tests/prompts.jsonl --limit 3 --predict 50 --threads 1 --shapes combinations --kv-dtype fp8_e4m3"
GOLDEN   = "golden=./$(B)/skiff verify golden tests/golden"
TEXT     = "text=./$(B)/skiff verify text tests/golden"
# The same text side against other programs; the whole of it is "make test-text-full".
COMPARE      = "text-tokenizer=python3 tests/text/test_tokenizer.py $(LINES) --strings 2500 --decodes 300 --every 16 --seed 1" \
               "text-chat=python3 tests/text/test_chat.py $(LINES) --conversations 600 --templates 3000 --seed 1"
COMPARE_FULL = "text-tokenizer=python3 tests/text/test_tokenizer.py $(LINES)" "text-chat=python3 tests/text/test_chat.py $(LINES)"
# It waits more than it works: first, beside the others.
SERVED   = "e2e-server=python3 tests/e2e/test_server.py ./$(SCRIPT)"
E2E      = "@e2e-demo=python3 tests/e2e/test_demo.py ./$(B)/skiff"
WRITTEN  = "constrained=python3 tests/text/test_constrained.py ./$(CONSTR)"
LINT     = "lint=tests/lint/run.sh" "lint-selftest=tests/lint/selftest.sh"

# Hostile files and requests must end in one clear error without a finding of the sanitizers.
SAN_B    := build/san-address-undefined
SAN_RUN  = $(patsubst $(B)/%,$(SAN_B)/%,$(UNIT) $(OPS)) $(foreach f,$(FUZZ),"san-replay-$(f)=./$(SAN_B)/tests/fuzz/replay-$(f) tests/fuzz/corpus/$(f)") "san-text=./$(SAN_B)/skiff verify text tests/golden" "@san-e2e-demo=python3 tests/e2e/test_demo.py ./$(SAN_B)/skiff"

# The shim's own tests also run with the sanitizers that it has to work with, the ops with the one that sees what is
# read or written beside a block, and some of them with the one that sees threads that do not wait for each other.
SIMT_SAN := address,undefined thread
SIMT_IN_address,undefined = $(SIMT_SELF) $(SIMT_OPS)
SIMT_IN_thread            = $(SIMT_SELF) $(filter %_linear %_rows,$(SIMT_OPS))
SIMT_RUN  = $(patsubst $(B)/%,$(call SIMT_OF,$(SAN))/%,$(SIMT_C) $(SIMT_SELF) $(SIMT_CXX)) \
            $(if $(SAN),,$(foreach s,$(SIMT_SAN),$(patsubst $(B)/%,$(call SIMT_OF,$(s))/%,$(SIMT_IN_$(s))))) \
            "simt-golden=./$(call SIMT_OF,$(SAN))/skiff verify golden --backend cuda tests/golden"
# One architecture of `make check-cuda`, where there is nvcc.
TEST_ARCH   = sm_90a
CUDA_CHECKS = "cublaslt=tests/cuda/link_lt.sh build/cuda-$(TEST_ARCH)/tests/cuda/link_lt" "cuda-kernels-selftest=python3 tests/cuda/check_kernels.py --selftest" \
              "cuda-kernels=python3 tests/cuda/check_kernels.py --objects build/cuda-$(TEST_ARCH)/kernels/cuda --tools build/cuda-tools"

test: deps-test ## everything: unit, ops, simt, golden, model, lossless, e2e, lint, sanitizers, CUDA code; the last line counts
	@.ci/deps $(DEPS_LINT) || true
	@$(MAKE) -j$(JOBS) $(B)/skiff $(UNIT) $(MODEL) $(OPS) $(SCRIPT) $(CONSTR) $(LINES) $(REPLAYS)
	@$(if $(SAN),,$(MAKE) -j$(JOBS) SAN=address,undefined san-programs)
	@if $(MAKE) CUDA=1 nvcc-there 2>/dev/null; then $(MAKE) CUDA=1 CUDA_ARCH=$(TEST_ARCH) -j$(JOBS) cuda-objects && tests/cuda/tools.sh build/cuda-tools; fi
	@$(MAKE) simt-builds
	@$(RUN) --jobs 2 $(SERVED) $(LOSSLESS) $(UNIT) $(OPS) $(SIMT_RUN) $(MODEL) $(GOLDEN) $(TEXT) $(COMPARE) $(WRITTEN) $(REPLAY) $(E2E) $(if $(SAN),,$(SAN_RUN)) $(CUDA_CHECKS) $(LINT)
san-programs: $(B)/skiff $(UNIT) $(OPS) $(REPLAYS)
simt-builds:
	@$(MAKE) -j$(JOBS) SIMT=1 simt-programs
	@$(if $(SAN),,$(foreach s,$(SIMT_SAN),$(MAKE) -j$(JOBS) SIMT=1 SAN=$(s) simt-sanitized &&) true)
simt-programs: $(B)/skiff $(SIMT_C) $(SIMT_SELF) $(SIMT_CXX)
simt-sanitized: $(SIMT_IN_$(SAN))
.PHONY: san-programs simt-builds simt-programs simt-sanitized
test-unit: deps-test $(B)/skiff $(UNIT) ## tests/unit and the text cases; T=pattern selects of tests/unit
	@$(RUN) $(if $(T),$(filter $(B)/tests/unit/$(T),$(UNIT)),$(UNIT) $(TEXT))
test-text: deps-test $(B)/skiff $(LINES) $(CONSTR) $(REPLAYS) ## tokenizer, templates and constrained answers: golden cases, and shortly against tokenizers, jinja2, jsonschema
	@$(RUN) $(TEXT) $(COMPARE) $(WRITTEN) $(REPLAY)
test-text-full: deps-test $(LINES) ## 20,000 random strings, every code point, 5,000 conversations and 20,000 templates against tokenizers and jinja2
	@$(RUN) $(COMPARE_FULL)
fuzz-%: deps-fuzz ## libFuzzer on one driver of tests/fuzz for FUZZ_TIME seconds; what it finds goes to build/fuzz
	@$(FUZZ_MAKE) $(FUZZ_B)/tests/fuzz/fuzz-$*
	@mkdir -p build/fuzz/$*
	./$(FUZZ_B)/tests/fuzz/fuzz-$* -max_total_time=$(FUZZ_TIME) -timeout=10 -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1 $(patsubst %,-dict=%,$(wildcard tests/fuzz/$*.dict)) -artifact_prefix=build/fuzz/$*- build/fuzz/$* tests/fuzz/corpus/$*
fuzz-smoke: deps-fuzz ## every fuzz driver for 30 seconds
	@for f in $(FUZZ); do $(MAKE) fuzz-$$f FUZZ_TIME=30 || exit 1; done
deps-fuzz: deps
	@.ci/deps clang libclang-rt-14-dev
.PHONY: fuzz-smoke deps-fuzz
test-ops: deps-test $(OPS) ## every op, case by case, against the scalar reference
	@$(RUN) $(OPS)
test-simt: deps-test simt-builds ## CUDA kernels as fibers on the CPU, and the shim that they run on
	@$(RUN) --jobs $(JOBS) $(SIMT_RUN)
test-model: deps-test skiff $(MODEL) ## the promises on the demo pair: golden, invariance, purity, acceptance, lossless
	@$(RUN) $(MODEL) $(GOLDEN) $(LOSSLESS)
test-e2e: deps-test skiff $(SCRIPT) ## the server over real sockets
	@$(RUN) $(SERVED) $(E2E)
lint: ## include directions, headers alone, forbidden words, clang-format, cppcheck
	@.ci/deps $(DEPS_LINT) python3 || true
	@$(RUN) $(LINT)
.PHONY: test test-unit test-text test-text-full test-ops test-simt test-model test-e2e lint

# Skipped, with the reason, where there is no nvcc. Objects and what ptxas said of them are those of `make cuda`.
CUDA_CHECK = python3 tests/cuda/check_kernels.py --objects build/cuda$(if $(CUDA_ARCH),-$(CUDA_ARCH))/kernels/cuda --tools build/cuda-tools $(if $(UPDATE),--update)
check-cuda: deps ## compile all CUDA code for every architecture; registers, spills and instructions of its kernels; UPDATE=1 records them
	@if $(MAKE) CUDA=1 nvcc-there; then \
	    $(MAKE) CUDA=1 -j$(JOBS) cuda-objects && tests/cuda/tools.sh build/cuda-tools && $(CUDA_CHECK) --selftest && $(CUDA_CHECK) && build/cuda$(if $(CUDA_ARCH),-$(CUDA_ARCH))/tests/cuda/link_lt; \
	else echo "skip check-cuda: there is no nvcc"; fi
cuda-objects: $(CU) $(if $(CUDA),$(B)/tests/cuda/link_lt)
# The program opens cuBLASLt when it is asked for; that all it wants is there, only a link shows.
build/%/tests/cuda/link_lt: tests/cuda/link_lt.cpp kernels/cuda/lt.def
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) -std=gnu++20 -Wall -Wextra -Werror -I. -isystem $(CUDA_ROOT)/include -o $@ $< -L$(CUDA_ROOT)/lib64 -Wl,-rpath,$(CUDA_ROOT)/lib64 -lcublasLt
device-tests: $(B)/skiff $(DEVICE)
.PHONY: check-cuda cuda-objects device-tests

## measuring, formatting, installing
bench: all ## prefill, plain decoding, every way to speculate on the demo mix; writes perf/results
	@mkdir -p perf/results
	./skiff bench --prompts tests/prompts.jsonl --json perf/results/bench.json
	./skiff bench spec --prompts tests/prompts.jsonl --json perf/results/spec.json --plots perf/results
bench-text: deps-test $(LINES) ## tokenizing against tokenizers, an agent's prompt, hard texts; writes perf/results/text.json
	@mkdir -p perf/results
	@python3 perf/text.py --program $(LINES) --json perf/results/text.json
format: ## clang-format over all sources
	@git ls-files -co --exclude-standard '*.c' '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i
install: all ## to $(prefix), below DESTDIR
	install -D -m 755 $(B)/skiff $(DESTDIR)$(prefix)/bin/skiff
	install -D -m 644 engine/cli/skiff.1 $(DESTDIR)$(prefix)/share/man/man1/skiff.1
clean: ## remove build/ and ./skiff
	rm -rf build skiff
help: ## this list
	@awk -F ':.*## ' '/^## /{ printf "\n%s\n", substr($$0, 4) } /^[a-z][a-z0-9-]*:.*## /{ printf "  %-12s %s\n", $$1, $$2 }' Makefile
.PHONY: bench bench-text format install clean help

-include $(shell find $(sort $(B) $(HOST_B)) -name '*.d' 2>/dev/null)
