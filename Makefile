# skiff. `make help` lists the targets; objects go to build/<variant>/.
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

CC      ?= gcc
ifeq ($(origin CC),default)
CC      := gcc
endif
SAN     ?=
VARIANT := $(if $(SAN),san-$(subst $(comma),-,$(SAN)),release)
comma   := ,
B       := build/$(VARIANT)

WARN    := -Wall -Wextra -Werror -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wundef -Wpointer-arith
# Fused operations are written, never contracted by the compiler; no fast-math anywhere.
CFLAGS  := -std=gnu17 -D_GNU_SOURCE -O2 -g $(WARN) -fno-math-errno -ffp-contract=off -I.
LDFLAGS :=
LDLIBS  := -ljansson -lpcre2-8 -levent_core -levent_extra -lm -lpthread
ifneq ($(SAN),)
CFLAGS  += -fsanitize=$(SAN) -fno-omit-frame-pointer -DSKIFF_DEBUG=1
ifneq ($(findstring undefined,$(SAN)),)
CFLAGS  += -fno-sanitize-recover=undefined
endif
LDFLAGS += -fsanitize=$(SAN)
endif

# One source per op family, compiled once per instruction set; nothing else gets such flags.
ISA_avx2       := -mavx2 -mfma
ISA_avx512     := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma
ISA_avx512bf16 := $(ISA_avx512) -mavx512bf16
ISAS           := avx2 avx512 avx512bf16

SRC_LIB := $(filter-out engine/cli/main.c,$(wildcard engine/base/*.c engine/load/*.c engine/text/*.c engine/core/*.c \
           engine/server/*.c engine/server/net/*.c engine/cli/*.c kernels/*.c kernels/ref/*.c graphs/*.c target/*.c draft/*.c))
ASM_LIB := $(wildcard engine/load/*.S)
SIMD    := $(wildcard kernels/simd/*.c)
OBJ_LIB := $(SRC_LIB:%.c=$(B)/%.o) $(ASM_LIB:%.S=$(B)/%.o) \
           $(foreach i,$(ISAS),$(SIMD:kernels/simd/%.c=$(B)/kernels/simd/$(i)/%.o))

all: skiff ## build ./skiff

skiff: $(B)/skiff
	@cp -f $< $@

$(B)/skiff: $(B)/engine/cli/main.o $(B)/libskiff.a
	$(CC) $(LDFLAGS) -o $@ $(B)/engine/cli/main.o $(B)/libskiff.a $(LDLIBS)

$(B)/libskiff.a: $(OBJ_LIB)
	@rm -f $@
	ar rcs $@ $(OBJ_LIB)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/%.o: %.S
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

define simd_rule
$(B)/kernels/simd/$(1)/%.o: kernels/simd/%.c
	@mkdir -p $$(@D)
	$$(CC) $$(CFLAGS) -O3 $$(ISA_$(1)) -DSIMD_ISA=$(1) -DSIMD_$(1)=1 -MMD -MP -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call simd_rule,$(i))))

clean: ## remove build/ and ./skiff
	rm -rf build skiff

-include $(shell find $(B) -name '*.d' 2>/dev/null)

.PHONY: all clean
