# The two commands of the README, and the developer's others. Each does its own set-up on a fresh Debian 12.
JOBS ?= $(shell nproc)
TRACE = tests/fixtures/traces/dlrm_dcnv2_w1_r0.kineto.json.gz
# Tests that simulate whole kernels and steps: out of reach of valgrind, and the others walk the same code.
LONG = ^test_(reference|stack|steps|calibrate|cli)$$
SOURCES = $(shell git ls-files '*.c' '*.h')

.PHONY: help demo test build bench selection accuracy examples schemas format format-check lint check-deep coverage fuzz package install clean

help:
	@echo 'make demo        predict a recorded DLRM step on MI350X, B200 and H200'
	@echo 'make test        every test, then the same tests under AddressSanitizer and UBSan'
	@echo 'make build       build/reckon alone'
	@echo 'make bench       speed of the simulator itself'
	@echo 'make selection   the chosen tiles of SHAPES (default 200) handed products against their best candidates'
	@echo 'make examples    the committed example reports in reports/examples, anew'
	@echo 'make accuracy    predictions against the H200 measurements in calib/data, per suite'
	@echo 'make lint        clang warnings as errors, then clang-tidy'
	@echo 'make check-deep  every test under valgrind (slow)'
	@echo 'make fuzz        every reader of input under libFuzzer, FUZZ_SECONDS (default 600) each'
	@echo 'make package     a Debian package in build/'
	@echo 'make coverage    line coverage of the tests, in build-coverage/coverage.html'
	@echo 'make format      clang-format in place'
	@echo 'make schemas     docs/schemas of the files whose keys the program knows, after a key is added'
	@echo 'make install     to PREFIX (default /usr/local)'

demo: build
	build/reckon predict $(TRACE) --device mi350x,b200,h200

build:
	@cmake/setup.sh
	cmake --preset release
	cmake --build --preset release --target reckon -j $(JOBS)

# The sanitized run leaves out the checks of the source tree and tests labelled slow, whose code faster tests cover. Last, the
# two builds must print the same bytes.
test:
	@cmake/setup.sh
	cmake --preset release
	cmake --build --preset release -j $(JOBS)
	ctest --preset release -j $(JOBS)
	cmake --preset asan
	cmake --build --preset asan -j $(JOBS)
	ctest --preset asan -j $(JOBS)
	tests/checks/same_bytes.sh build/reckon build-asan/reckon

bench: build
	cmake --build --preset release --target bench -j $(JOBS)

# Half of the shapes on the H200, of its own table, half on the MI350X, of the MI355X's.
SHAPES ?= 200
selection: build
	cmake --build --preset release --target check_gemm_choice -j $(JOBS)
	build/tests/kernels_dense/check_gemm_choice h200 calib/data/h200/gemm.csv $$(($(SHAPES) / 2)) 4 0.07
	build/tests/kernels_dense/check_gemm_choice mi350x calib/data/published/mi355x/gemm.csv $$(($(SHAPES) / 2)) 4 0.07

accuracy: build
	build/reckon calibrate --accuracy calib/data/h200 --base h200 --fit calib/fits/h200.json -o reports/accuracy.md --html reports/accuracy.html \
		--also b200=calib/data/published/b200 --also b200-750w=calib/data/published/b200-750w --also h100=calib/data/published/h100 --also mi300x=calib/data/published/mi300x \
		--also mi350x=calib/data/published/mi350x --also mi355x=calib/data/published/mi355x

examples: build
	reports/examples/make.sh build/reckon

schemas: build
	build/reckon devices --schema >docs/schemas/device.schema.json

format:
	@cmake/setup.sh --lint
	clang-format -i $(SOURCES)

format-check:
	@cmake/setup.sh --lint
	clang-format --dry-run -Werror $(SOURCES)

lint:
	@cmake/setup.sh --lint
	cmake --preset clang
	cmake --build --preset clang -j $(JOBS)
	run-clang-tidy -quiet -p build-clang -j $(JOBS) '$(CURDIR)/(sim|workloads|studies|calib|reports)/'

check-deep:
	@cmake/setup.sh --deep
	cmake --preset deep
	cmake --build --preset deep -j $(JOBS)
	ctest --preset deep -E '$(LONG)' -j $(JOBS)

coverage:
	@cmake/setup.sh --coverage
	cmake --preset coverage
	cmake --build --preset coverage -j $(JOBS)
	ctest --preset coverage -LE checks -j $(JOBS)
	gcovr --root . --filter 'sim/|workloads/|studies/|calib/|reports/' --object-directory build-coverage \
	    --print-summary --html-details build-coverage/coverage.html >/dev/null

FUZZ_SECONDS ?= 600
fuzz:
	@cmake/setup.sh --lint
	cmake --preset fuzz
	cmake --build --preset fuzz --target fuzzers -j $(JOBS)
	tests/fuzz/run.sh build-fuzz $(FUZZ_SECONDS)

package:
	@cmake/setup.sh
	cmake --preset release -D CMAKE_INSTALL_PREFIX=/usr
	cmake --build --preset release --target reckon reckon_library man -j $(JOBS)
	cd build && cpack -G DEB

PREFIX ?= /usr/local
install:
	@cmake/setup.sh
	cmake --preset release -D CMAKE_INSTALL_PREFIX=$(PREFIX)
	cmake --build --preset release --target reckon reckon_library man -j $(JOBS)
	cmake --install build

clean:
	rm -rf build build-asan build-coverage build-clang build-deep build-fuzz
