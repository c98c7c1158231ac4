# hop: make all | demo | test | soak | bench | check | install | clean
#
# BUILD=DIR  where everything is built      SAN=1     with the address and undefined-behaviour sanitizers
# PREFIX=DIR where install puts things      BENCH="…" which benchmarks to run
BUILD ?= build
PREFIX ?= /usr/local
CC = gcc
CFLAGS ?= -O2 -g
# Which variables a longjmp might clobber depends on inlining: worth a look, not worth a broken build.
WARN = -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-missing-field-initializers -Wno-error=clobbered
# Results are defined bit for bit: no contraction, no reassociation, in any translation unit.
NUMBERS = -ffp-contract=off
CPPFLAGS += -Iinclude -Isrc
LIBS = -lopenblas -lz -lm -lpthread -ldl
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

ifdef SAN # the plain build gives these two warnings; with sanitizers they come from the instrumentation
CFLAGS = -Wno-clobbered -Wno-maybe-uninitialized -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
endif

# What is missing is installed before anything below looks for it; once per make, and not to clean up.
ifeq ($(filter-out clean,$(or $(MAKECMDGOALS),all)),)
HOP_SETUP = done
endif
ifndef HOP_SETUP
ifneq ($(shell ./setup 1>&2 && echo good),good)
$(error ./setup failed)
endif
export HOP_SETUP = done
endif
LLVM_CONFIG := $(firstword $(foreach v,22 21 20 19,$(shell command -v llvm-config-$(v) 2>/dev/null)))

SOURCES = $(filter-out src/emit/llvm%.c src/cli/%.c,$(wildcard src/*/*.c))
OBJECTS = $(SOURCES:src/%.c=$(BUILD)/%.o)
CLI = $(patsubst src/%.c,$(BUILD)/%.o,$(wildcard src/cli/*.c))
LLVM_SOURCES = $(wildcard src/emit/llvm*.c)
LLVM_OBJECTS = $(LLVM_SOURCES:src/%.c=$(BUILD)/%.o)
TESTS = $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/*_test.c tests/*_fuzz.c))
PLUGIN = $(if $(LLVM_CONFIG),$(if $(LLVM_SOURCES),$(BUILD)/libhop_llvm.so))
COMPILE = $(CC) $(WARN) $(NUMBERS) $(CPPFLAGS) $(CFLAGS) -fPIC -MMD -MP
LINK_HOP = $(BUILD)/libhop.a $(LIBS)

all: $(BUILD)/libhop.a $(BUILD)/libhop.so $(BUILD)/hop $(PLUGIN)
ifeq ($(LLVM_CONFIG),)
	@echo "LLVM 19 or newer was not found: hop is built without compilation and interprets" >&2
endif

# Objects depend on the flags they were made with.
$(BUILD)/flags: force
	@mkdir -p $(@D)
	@echo '$(COMPILE) $(LLVM_CONFIG)' >$@.now; cmp -s $@.now $@ && rm $@.now || mv $@.now $@

ifneq ($(LLVM_CONFIG),)
$(LLVM_OBJECTS): CPPFLAGS += -isystem $(shell $(LLVM_CONFIG) --includedir)
endif
$(BUILD)/%.o: src/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(COMPILE) -c $< -o $@

$(BUILD)/libhop.a: $(OBJECTS)
	@rm -f $@
	ar rcs $@ $^

# The library for programs in C and other languages: cc program.c -lhop
$(BUILD)/libhop.so: $(OBJECTS)
	$(CC) $(CFLAGS) -shared -Wl,-soname,libhop.so -o $@ $^ $(LIBS)

$(BUILD)/hop: $(CLI) $(BUILD)/libhop.a
	$(CC) $(CFLAGS) -o $@ $(CLI) $(LINK_HOP)

$(BUILD)/libhop_llvm.so: $(LLVM_OBJECTS)
	$(CC) $(CFLAGS) -shared -o $@ $^ -L$(shell $(LLVM_CONFIG) --libdir) -lLLVM-$(firstword $(subst ., ,$(shell $(LLVM_CONFIG) --version)))

$(BUILD)/tests/%: tests/%.c $(filter-out $(BUILD)/cli/main.o,$(CLI)) $(BUILD)/libhop.a
	@mkdir -p $(@D)
	$(COMPILE) $< $(filter-out $(BUILD)/cli/main.o,$(CLI)) -o $@ $(LINK_HOP)

tests: all $(TESTS)

demo: all
	HOP=$(BUILD)/hop BUILD=$(BUILD) examples/demo.sh

# Everything that continuous integration runs: both builds, then every test on each. The last line is `N passed, M failed`.
test:
	@+$(MAKE) --no-print-directory -j$(JOBS) tests
ifdef SAN
	@tests/run_all --san $(BUILD)
else
	@+$(MAKE) --no-print-directory -j$(JOBS) tests SAN=1 BUILD=$(BUILD)/san
	@tests/run_all $(BUILD) --san $(BUILD)/san
endif

soak:
	@+$(MAKE) --no-print-directory -j$(JOBS) tests
	@+$(MAKE) --no-print-directory -j$(JOBS) tests SAN=1 BUILD=$(BUILD)/san
	@tests/run_all --soak $(BUILD) --san $(BUILD)/san

bench: all
	@BUILD=$(BUILD) HOP=$(BUILD)/hop bench/run $(BENCH)

check:
	@tests/check

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/hop $(DESTDIR)$(PREFIX)/include/hop
	install -m 755 $(BUILD)/hop $(DESTDIR)$(PREFIX)/bin/hop
	install -m 644 $(BUILD)/libhop.a $(DESTDIR)$(PREFIX)/lib/libhop.a
	install -m 755 $(BUILD)/libhop.so $(DESTDIR)$(PREFIX)/lib/libhop.so
	install -m 644 include/hop/*.h $(DESTDIR)$(PREFIX)/include/hop/
	$(if $(PLUGIN),install -m 755 $(PLUGIN) $(DESTDIR)$(PREFIX)/lib/hop/libhop_llvm.so)

clean:
	rm -rf $(BUILD)

-include $(OBJECTS:.o=.d) $(CLI:.o=.d) $(LLVM_OBJECTS:.o=.d) $(TESTS:=.d)
.PHONY: all tests demo test soak bench check install clean force
