# hop: make all | demo | test | soak | bench | check | install | clean
BUILD ?= build
CC = gcc
CFLAGS ?= -O2 -g
WARN = -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-missing-field-initializers
# Results are defined bit for bit: no contraction, no reassociation, in any translation unit.
NUMBERS = -ffp-contract=off
CPPFLAGS += -Iinclude -Isrc
LLVM_CONFIG := $(firstword $(shell command -v llvm-config-22 llvm-config-21 llvm-config-20 llvm-config-19 2>/dev/null))
LIBS = -lopenblas -lm -lpthread -ldl

SOURCES = $(filter-out src/emit/llvm%.c src/cli/%.c,$(wildcard src/*/*.c))
OBJECTS = $(SOURCES:src/%.c=$(BUILD)/%.o)
CLI = $(patsubst src/%.c,$(BUILD)/%.o,$(wildcard src/cli/*.c))
LLVM_SOURCES = $(wildcard src/emit/llvm*.c)
TESTS = $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/*_test.c))

all: $(BUILD)/libhop.a $(if $(CLI),$(BUILD)/hop) $(if $(LLVM_CONFIG),$(if $(LLVM_SOURCES),$(BUILD)/libhop_llvm.so))

$(BUILD)/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(WARN) $(NUMBERS) $(CPPFLAGS) $(CFLAGS) -fPIC -MMD -MP -c $< -o $@

$(BUILD)/libhop.a: $(OBJECTS)
	rm -f $@ && ar rcs $@ $^

$(BUILD)/hop: $(CLI) $(BUILD)/libhop.a
	$(CC) $(CFLAGS) -rdynamic -o $@ $(CLI) -Wl,--whole-archive $(BUILD)/libhop.a -Wl,--no-whole-archive $(LIBS)

$(BUILD)/libhop_llvm.so: $(LLVM_SOURCES) $(wildcard src/loop/*.h src/emit/*.h src/ir/*.h src/runtime/rt.h)
	@mkdir -p $(@D)
	$(CC) $(WARN) $(NUMBERS) $(CPPFLAGS) $(CFLAGS) -fPIC -shared -isystem $(shell $(LLVM_CONFIG) --includedir) $(LLVM_SOURCES) -o $@ \
		-L$(shell $(LLVM_CONFIG) --libdir) -lLLVM-$(firstword $(subst ., ,$(shell $(LLVM_CONFIG) --version)))

$(BUILD)/tests/%: tests/%.c $(BUILD)/libhop.a
	@mkdir -p $(@D)
	$(CC) $(WARN) $(NUMBERS) $(CPPFLAGS) $(CFLAGS) -MMD -MP $< -rdynamic -o $@ -Wl,--whole-archive $(BUILD)/libhop.a -Wl,--no-whole-archive $(LIBS)

clean:
	rm -rf $(BUILD)

-include $(OBJECTS:.o=.d) $(CLI:.o=.d) $(TESTS:=.d)
.PHONY: all clean
