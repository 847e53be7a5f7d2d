# `make demo` is all a newcomer needs; `make help` lists the rest.

GO       ?= go
GOLANGCI ?= github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
PYTHON   ?= python3

# The binary is static: no C compiler is needed to build it, and it runs on any distribution.
export CGO_ENABLED ?= 0

.PHONY: help build demo test race lint generate bench golden clean need-go
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

need-go:
	@scripts/ensure.sh go

build: need-go ## build bin/trinity, one static binary
	$(GO) build -trimpath -o bin/trinity ./cmd/trinity

demo: build ## install what is missing, start a run and open it in the browser; options: ARGS="--steps 20"
	@test -n "$$DATABASE_URL" || scripts/ensure.sh postgres
	bin/trinity demo $(ARGS)

# A browser is worth having for the tests, but only CI insists on one: elsewhere the tests that need it say that they skip.
test: need-go ## run every test, also those on a real Postgres and in a real browser
	@scripts/ensure.sh postgres
	@scripts/ensure.sh chromium || test "$$CI" != true
	$(GO) test -timeout 20m $(TESTFLAGS) ./...

race: need-go ## run the tests under the race detector (needs a C compiler)
	@scripts/ensure.sh postgres
	CGO_ENABLED=1 $(GO) test -race -timeout 60m $(TESTFLAGS) ./...

lint: need-go ## check formatting, generated files and style
	@for f in $$(find web -name '*.templ'); do \
		$(GO) tool templ fmt -stdin-filepath $$f <$$f | cmp -s - $$f || { echo "$$f is not formatted: run make generate"; bad=1; }; \
	done; test -z "$$bad"
	$(GO) tool templ generate -check -path web
	$(GO) run $(GOLANGCI) run ./...

generate: need-go ## write the generated files anew after a change to a .templ file
	$(GO) tool templ fmt web
	$(GO) tool templ generate -path web

bench: build ## measure speed and memory beside OpenBLAS and PyTorch; options: ARGS="--quick --python DIR/bin/python"
	bin/trinity bench all $(ARGS)

# Expected values that come from other implementations, with the versions that made the committed ones.
golden: bin/golden/ready need-go ## make the tests' reference files anew with Pillow, transformers, PEFT, TRL, tokenizers and safetensors (needs Python and npm)
	$(GO) test ./trainer/tokenizer -run TestTrainedMatchesReference -update
	for d in imageproc tokenizer safetensors jinja engine/local fidelity; do (cd trainer/$$d/testdata && $(CURDIR)/bin/golden/bin/python make.py) || exit 1; done

bin/golden/ready: trainer/fidelity/testdata/requirements.txt
	$(PYTHON) -m venv bin/golden
	bin/golden/bin/pip install --quiet -r $<
	touch $@

clean: ## remove what was built; runs and databases stay
	rm -rf bin
