# hop: make all | demo | test | test-quick | soak | fuzzers | mutants | bench | bench-emitted | bench-instructions | bench-dist | bench-sizes | bench-calls | bench-operators | check | docs | python | wheel | stubs | test-python | test-array-api | test-peers | peers-state | peers-control | peers-dense | peers-memory | figures | install | uninstall | clean
#
# BUILD=DIR  where everything is built      SAN=1     with the address and undefined-behaviour sanitizers
# PREFIX=DIR where install puts things      BENCH="…" which benchmarks to run
# PYTHON=…   which Python, 3.11 or newer    HOP_TEST_PYTHON=off: make test without the Python package
# LIBDIR=DIR where it puts libraries        DESTDIR=DIR in front of all of it, for packages
# V=1        shows the commands that build
BUILD ?= build
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
CC = gcc
CFLAGS ?= -O2 -g
# Which variables a longjmp might clobber depends on inlining: worth a look, not worth a broken build.
WARN = -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-missing-field-initializers -Wno-error=clobbered
# Results are defined bit for bit: no contraction, no reassociation, in any translation unit.
NUMBERS = -ffp-contract=off
# But for products outside of strict mode, whose kernels multiply and add in one instruction.
$(BUILD)/runtime/product_kernels.o $(BUILD)/runtime/product_lines.o: NUMBERS = -ffp-contract=fast
# Its loops are vectors at this level alone.
$(BUILD)/dist/reduce.o: CFLAGS += -O3
CPPFLAGS += -Iinclude -Isrc
LIBS = -lz -lm -lpthread -ldl
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# In front of a command: $(call say,WHAT,FILE) shows a short line in its place, none under `make -s`.
SILENT = $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
say = $(if $(V),,@$(if $(SILENT),,printf '  %-6s %s\n' $1 $2;))

ifdef SAN # the plain build gives these two warnings; with sanitizers they come from the instrumentation
CFLAGS = -Wno-clobbered -Wno-maybe-uninitialized -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
endif

# Coverage-guided fuzzing: everything but LLVM's part compiled by clang, with its sanitizers and the counters that libFuzzer reads. FUZZ_LEVEL=-O0 is a
# third of the work to compile: for make test, whose fuzzers run for seconds.
CLANGS = clang-22 clang-21 clang-20 clang-19 clang-18 clang-17 clang-16 clang-15 clang-14 clang
FUZZ_LEVEL ?= -O1
ifdef FUZZ
CFLAGS = $(FUZZ_LEVEL) -g -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize=function -fno-sanitize-recover=all -fno-omit-frame-pointer
WARN += -Wno-unknown-warning-option
endif

# What is missing is installed before anything below looks for it; once per make, and not to clean up.
ifeq ($(filter-out clean uninstall,$(or $(MAKECMDGOALS),all)),)
HOP_SETUP = done
endif
PYTHON ?= python3
ifndef HOP_SETUP
ifneq ($(shell PYTHON='$(PYTHON)' ./setup $(if $(filter test test-quick soak check python wheel stubs test-python test-array-api test-peers peers-state peers-control peers-dense peers-memory figures bench-sizes bench-calls bench-operators,$(MAKECMDGOALS)),python) 1>&2 && echo good),good)
$(error ./setup failed)
endif
export HOP_SETUP = done
endif
# The compiler of an MPI; none: hop is built without ranks over MPI.
MPICC ?= $(shell command -v mpicc 2>/dev/null)
LLVM_CONFIG := $(firstword $(foreach v,22 21 20 19,$(shell command -v llvm-config-$(v) 2>/dev/null)))

SOURCES = $(filter-out src/emit/llvm%.c src/dist/mpi%.c src/check/%.c src/cli/%.c,$(wildcard src/*/*.c))
OBJECTS = $(SOURCES:src/%.c=$(BUILD)/%.o)
# What tests are made of is no part of the library: the command and the test programs link it.
CHECK = $(patsubst src/%.c,$(BUILD)/%.o,$(wildcard src/check/*.c))
CLI = $(patsubst src/%.c,$(BUILD)/%.o,$(wildcard src/cli/*.c)) $(CHECK)
LLVM_SOURCES = $(wildcard src/emit/llvm*.c)
LLVM_OBJECTS = $(LLVM_SOURCES:src/%.c=$(BUILD)/%.o)
TESTS = $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/*_test.c tests/*_fuzz.c))
MPI_SOURCES = $(wildcard src/dist/mpi*.c)
MPI_OBJECTS = $(MPI_SOURCES:src/%.c=$(BUILD)/%.o)
PLUGINS = $(if $(LLVM_CONFIG),$(if $(LLVM_SOURCES),$(BUILD)/libhop_llvm.so)) $(if $(MPICC),$(BUILD)/libhop_mpi.so)
COMPILE_FLAGS = $(WARN) $(NUMBERS) $(CPPFLAGS) $(CFLAGS) -fPIC -MMD -MP
COMPILE = $(CC) $(COMPILE_FLAGS)
LINK_HOP = $(BUILD)/libhop.a $(LIBS)

all: $(BUILD)/libhop.a $(BUILD)/libhop.so $(BUILD)/hop $(PLUGINS)
ifeq ($(LLVM_CONFIG),)
	@echo "LLVM 19 or newer was not found: hop is built without compilation and interprets" >&2
endif
ifeq ($(MPICC),)
	@echo "mpicc was not found: hop is built without ranks over MPI" >&2
endif

# Objects depend on the flags they were made with.
$(BUILD)/flags: force
	@mkdir -p $(@D)
	@echo '$(COMPILE) $(LLVM_CONFIG) $(MPICC)' >$@.now; cmp -s $@.now $@ && rm $@.now || mv $@.now $@

# Code that the cache keeps belongs to the sources and flags that generated it.
$(BUILD)/identity.h: $(BUILD)/flags include/hop/hop.h force
	@echo "#define HOP_IDENTITY \"$$(cat $(sort $(wildcard src/*/*.[ch] src/*/*.def include/hop/*.h)) $(BUILD)/flags | sha256sum | cut -c1-32)\"" >$@.now
	@cmp -s $@.now $@ && rm $@.now || mv $@.now $@
$(BUILD)/runtime/cache.o: CPPFLAGS += -include $(BUILD)/identity.h
$(BUILD)/runtime/cache.o: $(BUILD)/identity.h

ifneq ($(LLVM_CONFIG),)
$(LLVM_OBJECTS): CPPFLAGS += -isystem $(shell $(LLVM_CONFIG) --includedir)
endif
$(BUILD)/%.o: src/%.c $(BUILD)/flags | include/hop/hop.h
	@mkdir -p $(@D)
	$(call say,CC,$<)$(COMPILE) -c $< -o $@

$(BUILD)/libhop.a: $(OBJECTS)
	@rm -f $@
	$(call say,AR,$@)ar rcs $@ $^

# The library for programs in C and other languages: cc program.c -lhop
# The version stands in the header. Names are exported under HOP_MAJOR.MINOR, so that before 1.0 a program meets the library it was built for or an error.
VERSION := $(shell sed -n 's/^\#define HOP_VERSION "\(.*\)"/\1/p' include/hop/hop.h)
MAJOR = $(word 1,$(subst ., ,$(VERSION)))
SHARED = libhop.so.$(VERSION)
, := ,
$(BUILD)/libhop.so: $(BUILD)/$(SHARED)
	@ln -sf $(SHARED) $(BUILD)/libhop.so.$(MAJOR)
	@ln -sf $(SHARED) $@
	@touch -c $@
$(BUILD)/$(SHARED): $(OBJECTS) $(BUILD)/exports.map
	$(call say,LINK,$@)$(CC) $(CFLAGS) -shared -Wl,-soname,libhop.so.$(MAJOR) -Wl,--version-script=$(BUILD)/exports.map $(if $(SAN),,-Wl$(,)-z$(,)defs) -o $@ $(OBJECTS) $(LIBS)

# The header's lists of elementwise operators are those of the table.
include/hop/hop.h: src/ops/elementwise.def src/ops/header.awk force
	@mkdir -p $(BUILD)
	@awk -f src/ops/header.awk src/ops/elementwise.def $@ >$(BUILD)/hop.h.now
	@cmp -s $(BUILD)/hop.h.now $@ && rm $(BUILD)/hop.h.now || mv $(BUILD)/hop.h.now $@

# What the header declares, as the compiler sees it, and nothing else is exported.
HEADERS = $(wildcard include/hop/*.h)
$(BUILD)/exports: $(HEADERS)
	@mkdir -p $(@D)
	@printf '#include <%s>\n' $(HEADERS:include/%=%) | $(CC) $(CPPFLAGS) -x c -fsyntax-only -aux-info $@.all -
	@sed -n 's|^/\* include/hop/[^ ]* \*/ extern [^(]*\<\(hop_[a-z0-9_]*\) (.*|\1|p' $@.all | sort -u >$@
	@rm $@.all
$(BUILD)/exports.map: $(BUILD)/exports
	@{ echo 'HOP_$(MAJOR).$(word 2,$(subst ., ,$(VERSION))) {'; echo 'global:'; sed 's/$$/;/' $<; echo 'local: *;'; echo '};'; } >$@

$(BUILD)/hop: $(CLI) $(BUILD)/libhop.a
	$(call say,LINK,$@)$(CC) $(CFLAGS) -o $@ $(CLI) $(LINK_HOP)

$(BUILD)/libhop_llvm.so: $(LLVM_OBJECTS)
	@echo '{ global: hop_llvm_generator; local: *; };' >$@.map
	$(call say,LINK,$@)$(CC) $(CFLAGS) -shared -Wl,--version-script=$@.map -o $@ $^ -L$(shell $(LLVM_CONFIG) --libdir) -lLLVM-$(firstword $(subst ., ,$(shell $(LLVM_CONFIG) --version)))

$(BUILD)/tests/%: tests/%.c $(CHECK) $(BUILD)/libhop.a
	@mkdir -p $(@D)
	$(call say,TEST,$<)$(COMPILE) -include tests/isolated.h $< $(CHECK) -o $@ $(LINK_HOP)

# The MPI's own wrapper around the compiler knows its headers and libraries.
MPI_WRAPPED = OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(MPICC)
$(MPI_OBJECTS): $(BUILD)/%.o: src/%.c $(BUILD)/flags | include/hop/hop.h
	@mkdir -p $(@D)
	$(call say,CC,$<)$(MPI_WRAPPED) $(COMPILE_FLAGS) -c $< -o $@
$(BUILD)/libhop_mpi.so: $(MPI_OBJECTS)
	@echo '{ global: hop_mpi; local: *; };' >$@.map
	$(call say,LINK,$@)$(MPI_WRAPPED) $(CFLAGS) -shared -Wl,--version-script=$@.map $(if $(SAN),,-Wl$(,)-z$(,)defs) -o $@ $^

# Operators from outside that programs of the corpus call: a library that needs only the header.
TEST_OPERATORS = $(BUILD)/tests/operators.so
$(TEST_OPERATORS): $(wildcard tests/operators/*.c) include/hop/hop.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(WARN) $(NUMBERS) -Iinclude $(CFLAGS) -fPIC -shared -o $@ $(wildcard tests/operators/*.c) -lm

tests: all $(TESTS) $(TEST_OPERATORS)

FUZZERS = $(patsubst tests/fuzz/%.c,$(BUILD)/%,$(wildcard tests/fuzz/*_fuzzer.c))
$(BUILD)/%_fuzzer: tests/fuzz/%_fuzzer.c tests/fuzz/fuzz.h tests/attempt.h $(CHECK) $(BUILD)/libhop.a
	$(call say,FUZZ,$<)$(COMPILE) -Itests/fuzz -include tests/isolated.h -fsanitize=fuzzer $< $(CHECK) -o $@ $(LINK_HOP)
fuzz-programs: $(FUZZERS)

FUZZ_PROBE = int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n > 9; }
# By the newest clang that has a libFuzzer, into $(BUILD)/fuzz; nothing where clang or its libFuzzer is missing (tests/coverage_test.sh says so).
fuzzers:
	@for clang in $(CLANGS); do \
	    if echo '$(FUZZ_PROBE)' | $$clang -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null; then \
	        exec $(MAKE) --no-print-directory -j$(JOBS) FUZZ=1 BUILD=$(BUILD)/fuzz CC="$(FUZZ_WRAPPER) $$clang" fuzz-programs; \
	    fi; \
	done

demo: all
	HOP=$(BUILD)/hop BUILD=$(BUILD) examples/demo.sh

# Everything that continuous integration runs: both builds, then every test on each. The last line is `N passed, M failed`.
test:
	@+$(MAKE) --no-print-directory -j$(JOBS) tests
ifdef SAN
	@PYTHON='$(PYTHON)' tests/run_all --san $(BUILD)
else
	@+$(MAKE) --no-print-directory -j$(JOBS) tests SAN=1 BUILD=$(BUILD)/san
	@+$(MAKE) --no-print-directory fuzzers FUZZ_LEVEL=-O0
	@PYTHON='$(PYTHON)' tests/run_all $(BUILD) --san $(BUILD)/san
endif

# For every commit: what two minutes can say on two processors, the plain build alone.
test-quick:
	@+$(MAKE) --no-print-directory -j$(JOBS) tests
	@tests/run_all --quick $(BUILD)

soak:
	@+$(MAKE) --no-print-directory -j$(JOBS) tests
	@+$(MAKE) --no-print-directory -j$(JOBS) tests SAN=1 BUILD=$(BUILD)/san
	@+$(MAKE) --no-print-directory fuzzers
	@PYTHON='$(PYTHON)' tests/run_all --soak $(BUILD) --san $(BUILD)/san

# Small wrong changes in the rules, one at a time: MUTANTS of them, drawn from SEED. The tests must notice at least 95 in 100.
MUTANTS ?= 100
SEED ?= 1
mutants:
	@+$(MAKE) --no-print-directory -j$(JOBS) tests
	@+$(MAKE) --no-print-directory -j$(JOBS) all SAN=1 BUILD=$(BUILD)/san
	@BUILD=$(BUILD) COMPILE='$(COMPILE)' LIBS='$(LIBS)' JOBS=$(JOBS) tests/mutants $(MUTANTS) $(SEED)

bench: all
	@BUILD=$(BUILD) HOP=$(BUILD)/hop bench/run $(BENCH)

# Emitted C beside the code that hop compiles itself.
bench-emitted: all
	@BUILD=$(BUILD) bench/run emitted $(BENCH)

# Exchanges between ranks: threads beside a memory copy, processes beside bare MPI; BENCH=4: on four ranks.
bench-dist: all
	@BUILD=$(BUILD) MPICC='$(MPICC)' bench/run dist $(BENCH)

# Instructions of one run of each program, a figure that can be compared: BENCH="--beside DIR" counts those of another build as well.
bench-instructions: all
	@BUILD=$(BUILD) bench/instructions $(BENCH)

# From Python: code for any size beside code for one.
bench-sizes: python
	PYTHONPATH=$(BUILD)/python HOP_CACHE=off $(PYTHON) bench/sizes.py $(BENCH)

# From Python: the first call of programs that call one block 4, 12 and 48 times.
bench-calls: python
	PYTHONPATH=$(BUILD)/python $(PYTHON) bench/calls.py $(BENCH)

# From Python: calls of operators from outside (it needs NumPy).
bench-operators: python
	PYTHONPATH=$(BUILD)/python HOP_CACHE=off $(PYTHON) bench/operators.py $(BENCH)

# Layout, layering, names, clang-tidy and cppcheck; part of `make test`.
check:
	@tests/layering_test.sh && tests/names_test.sh && tests/check_test.sh

# The Python package as it would be installed, in $(BUILD)/python; a wheel, in $(BUILD)/dist; its tests, in environments of their own (part of `make test`, too).
python: all
	HOP_BUILD=$(BUILD) $(PYTHON) python/build_backend/hop_build.py tree $(BUILD)/python
wheel: all
	HOP_BUILD=$(BUILD) $(PYTHON) python/build_backend/hop_build.py wheel $(BUILD)/dist
test-python: all
	BUILD=$(BUILD) PYTHON='$(PYTHON)' tests/python_test.sh

# The types of the package's public names, python/hop/*.pyi, from the package itself.
stubs: python
	PYTHONPATH=$(BUILD)/python $(PYTHON) python/build_backend/make_stubs.py

# The public conformance suite of the array-API standard against the wheel. Where it comes from: a folder, or a git address with @revision behind it.
ARRAY_API_TESTS ?= git+https://github.com/data-apis/array-api-tests@55fcc60179efa2680ddd6cd926ddf17b83530e2b
ARRAY_API_FLAGS ?= --max-examples 100 --hypothesis-disable-deadline
test-array-api: wheel
	$(PYTHON) python/tests/run_array_api.py $(ARRAY_API_TESTS) $(BUILD)/dist/hop-$(VERSION)-*.whl $(BUILD)/array-api $(ARRAY_API_FLAGS)

# hop beside JAX, in an environment of their own: PEERS random programs in both, then the times of both (DENSE="CASE…": of the dense cases only these).
PEERS ?= 600
PEERS_VENV = $(BUILD)/peers-venv
test-peers: wheel
	test -x $(PEERS_VENV)/bin/python || $(PYTHON) -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check numpy 'jax[cpu]' || { echo "test-peers compares hop with JAX, which could not be installed: pip install numpy 'jax[cpu]' says why above" >&2; exit 1; }
	$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps $(BUILD)/dist/hop-$(VERSION)-*.whl
	$(PEERS_VENV)/bin/python python/peers/compare.py $(PEERS)
	$(PEERS_VENV)/bin/python python/peers/rules.py
	$(PEERS_VENV)/bin/python python/peers/axes.py
	$(PEERS_VENV)/bin/python python/peers/shard_map.py
	$(PEERS_VENV)/bin/python python/peers/ranks.py
	$(PEERS_VENV)/bin/python python/peers/policies.py
	$(PEERS_VENV)/bin/python python/peers/dtypes.py
	$(PEERS_VENV)/bin/python python/peers/timings.py
	$(PEERS_VENV)/bin/python python/peers/dense.py --quick --limits $(DENSE)
	$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check onnx onnxruntime
	cd python/tests && HOP_CACHE=off $(abspath $(PEERS_VENV))/bin/python run.py test_engine.py
	$(PEERS_VENV)/bin/python examples/python/engines/onnx_engine.py

# Calls with changed state and changed sizes in hop, JAX and torch.compile, as a table of docs/python/peers.md. PyTorch takes some GB of disk.
peers-state: wheel
	test -x $(PEERS_VENV)/bin/python || $(PYTHON) -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check numpy 'jax[cpu]' torch || { echo "peers-state compares hop with JAX and PyTorch, which could not be installed: pip install numpy 'jax[cpu]' torch says why above" >&2; exit 1; }
	$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps $(BUILD)/dist/hop-$(VERSION)-*.whl
	$(PEERS_VENV)/bin/python python/peers/state.py --table docs/python/peers.md

# Functions of plain Python in hop, JAX and torch.compile, as another table there.
peers-control: wheel
	test -x $(PEERS_VENV)/bin/python || $(PYTHON) -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check numpy 'jax[cpu]' torch || { echo "peers-control compares hop with JAX and PyTorch, which could not be installed: pip install numpy 'jax[cpu]' torch says why above" >&2; exit 1; }
	$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps $(BUILD)/dist/hop-$(VERSION)-*.whl
	$(PEERS_VENV)/bin/python python/peers/control.py --table docs/python/peers.md

# Dense cases in hop, JAX, PyTorch and torch.compile beside the limits of the machine, as another one.
peers-dense: wheel
	test -x $(PEERS_VENV)/bin/python || $(PYTHON) -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check numpy 'jax[cpu]' torch || { echo "peers-dense compares hop with JAX and PyTorch, which could not be installed: pip install numpy 'jax[cpu]' torch says why above" >&2; exit 1; }
	$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps $(BUILD)/dist/hop-$(VERSION)-*.whl
	$(PEERS_VENV)/bin/python python/peers/dense.py --limits --table docs/python/peers.md --first docs/compile-time.md
	$(PEERS_VENV)/bin/python python/peers/conv.py --table docs/python/peers.md

# What README.md and docs/ say of times, measured anew and written there: a quarter of an hour on a quiet machine.
FIGURES = $(BUILD)/figures
figures: wheel all
	test -x $(PEERS_VENV)/bin/python || $(PYTHON) -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check numpy 'jax[cpu]' torch || { echo "figures compares hop with JAX and PyTorch, which could not be installed: pip install numpy 'jax[cpu]' torch says why above" >&2; exit 1; }
	$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps $(BUILD)/dist/hop-$(VERSION)-*.whl
	mkdir -p $(FIGURES)
	BUILD=$(BUILD) bench/run programs > $(FIGURES)/bench.txt
	$(PEERS_VENV)/bin/python python/peers/timings.py --table docs/python/peers.md > $(FIGURES)/timings.txt
	$(PEERS_VENV)/bin/python python/peers/picture.py $(FIGURES)/timings.txt docs/pictures/peers.svg
	$(PEERS_VENV)/bin/python python/peers/dense.py --limits --table docs/python/peers.md --first docs/compile-time.md > $(FIGURES)/dense.txt
	$(PEERS_VENV)/bin/python python/peers/readme.py README.md --bench $(FIGURES)/bench.txt --timings $(FIGURES)/timings.txt --dense $(FIGURES)/dense.txt

# Memory and time of twelve transformer blocks, hop within budgets, JAX under its policies: a table and a picture of docs/python/checkpointing.md.
peers-memory: wheel
	test -x $(PEERS_VENV)/bin/python || $(PYTHON) -m venv $(PEERS_VENV)
	$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check numpy 'jax[cpu]' || { echo "peers-memory compares hop with JAX, which could not be installed: pip install numpy 'jax[cpu]' says why above" >&2; exit 1; }
	$(PEERS_VENV)/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps $(BUILD)/dist/hop-$(VERSION)-*.whl
	$(PEERS_VENV)/bin/python python/peers/memory.py --table docs/python/checkpointing.md --picture docs/pictures/memory.svg

# The reference under docs/reference, from the header and the operator table.
docs: all python
	BUILD=$(BUILD) docs/generate
	PYTHONPATH=$(BUILD)/python $(PYTHON) python/build_backend/make_reference.py

# The static library that is installed is one object with the exported names alone, so that private ones meet nobody's. A program that it is linked into can
# be anywhere, so it knows where the back end is installed, and so does the command; both look beside themselves first, as the shared library does.
$(BUILD)/install/libhop.a: $(OBJECTS) $(CLI) $(BUILD)/libhop.a $(BUILD)/exports force
	@mkdir -p $(@D)
	$(COMPILE) -DHOP_PLUGIN_DIR='"$(LIBDIR)/hop/"' -c src/emit/plug_in.c -o $(@D)/plug_in.o
	ld -r -o $(@D)/hop.o $(filter-out $(BUILD)/emit/plug_in.o,$(OBJECTS)) $(@D)/plug_in.o
	objcopy --keep-global-symbols=$(BUILD)/exports $(@D)/hop.o
	rm -f $@ && ar rcs $@ $(@D)/hop.o
	$(CC) $(CFLAGS) -o $(@D)/hop $(CLI) $(@D)/plug_in.o $(LINK_HOP)

# Where the loader does not look by itself, programs remember the place.
SYSTEM_DIRS = /lib /usr/lib /usr/local/lib $(wildcard /usr/lib/*-linux-gnu*)
RPATH = $(if $(filter $(LIBDIR),$(SYSTEM_DIRS)),,-Wl,-rpath,$${libdir})
PACKAGE = sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|; s|@VERSION@|$(VERSION)|; s|@LIBS@|$(LIBS)|; s|@RPATH@|$(RPATH)|'
INSTALLED = bin/hop $(HEADERS)
INSTALLED_LIBS = libhop.a $(SHARED) libhop.so.$(MAJOR) libhop.so hop/libhop_llvm.so hop/libhop_mpi.so pkgconfig/hop.pc pkgconfig/hop-static.pc
install: all $(BUILD)/install/libhop.a
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include/hop $(DESTDIR)$(LIBDIR)/hop $(DESTDIR)$(LIBDIR)/pkgconfig
	install -m 755 $(BUILD)/install/hop $(DESTDIR)$(PREFIX)/bin/hop
	install -m 644 $(HEADERS) $(DESTDIR)$(PREFIX)/include/hop/
	install -m 644 $(BUILD)/install/libhop.a $(DESTDIR)$(LIBDIR)/libhop.a
	install -m 755 $(BUILD)/$(SHARED) $(DESTDIR)$(LIBDIR)/$(SHARED)
	ln -sf $(SHARED) $(DESTDIR)$(LIBDIR)/libhop.so.$(MAJOR)
	ln -sf libhop.so.$(MAJOR) $(DESTDIR)$(LIBDIR)/libhop.so
	$(if $(strip $(PLUGINS)),install -m 755 $(PLUGINS) $(DESTDIR)$(LIBDIR)/hop)
	for p in hop hop-static; do $(PACKAGE) src/api/$$p.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/$$p.pc || exit 1; done
	$(if $(filter $(LIBDIR),$(SYSTEM_DIRS)),$(if $(DESTDIR),,-ldconfig))

uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,$(INSTALLED)) $(addprefix $(DESTDIR)$(LIBDIR)/,$(INSTALLED_LIBS))
	-rmdir --ignore-fail-on-non-empty $(DESTDIR)$(PREFIX)/include/hop $(DESTDIR)$(LIBDIR)/hop

clean:
	rm -rf $(BUILD)

-include $(OBJECTS:.o=.d) $(CLI:.o=.d) $(LLVM_OBJECTS:.o=.d) $(MPI_OBJECTS:.o=.d) $(TESTS:=.d)
.PHONY: all python wheel stubs test-python test-array-api test-peers peers-state peers-control peers-dense peers-memory figures tests demo test test-quick soak mutants bench bench-emitted bench-instructions bench-dist bench-sizes bench-calls bench-operators check docs install uninstall clean force
