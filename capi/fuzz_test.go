package main

import (
	"flag"
	"path/filepath"
	"strconv"
	"testing"
)

var (
	fuzzSeconds = flag.Float64("fuzz-seconds", 1, "how long TestFuzzSubmit mutates requests, under each sanitizer")
	fuzzSeed    = flag.Uint64("fuzz-seed", 1, "what it begins with")
)

// TestFuzzSubmit mutates requests at the C API, over the stub of the Go side. `make fuzz`
// gives it more time. core's FuzzRequests is the other half: what Go makes of requests
// that C lets pass.
func TestFuzzSubmit(t *testing.T) {
	for name, flags := range map[string][]string{
		"address,undefined": {"-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"},
		"thread":            {"-O1", "-fsanitize=thread"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := compile(t, flags, "fuzzsubmit.c", "stub.c")
			run(t, []string{"TSAN_OPTIONS=halt_on_error=1"}, program, strconv.FormatFloat(*fuzzSeconds, 'f', 3, 64), strconv.FormatUint(*fuzzSeed, 10), filepath.Join("testdata", "fuzzsubmit.corpus"))
		})
	}
}
