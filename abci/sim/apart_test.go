package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// between divides cases in an argument.
const between = ";"

// apart runs cases in a process of its own, which writes to this one's output. It returns the cases
// that passed, and the end of what the process wrote.
func apart(ctx context.Context, cases []string) (passed []string, output string, err error) {
	dir, err := os.MkdirTemp(memory(), "chainify-sim")
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestNoScheduleConvictsAnHonestMember$", "-test.v", "-test.timeout=0",
		"-abreast="+strconv.Itoa(*abreast), "-dir="+dir, "-only="+strings.Join(cases, between))
	var written tail
	cmd.Stdout = io.MultiWriter(os.Stdout, &written)
	cmd.Stderr = cmd.Stdout
	alive, err := cmd.StdinPipe() // which ends with this process
	if err != nil {
		return nil, "", err
	}
	defer alive.Close()
	err = cmd.Run()
	list, errList := os.ReadFile(filepath.Join(dir, passedFile))
	if errList != nil && !errors.Is(errList, os.ErrNotExist) {
		err = errors.Join(err, errList)
	}
	for name := range strings.Lines(string(list)) {
		passed = append(passed, strings.TrimSuffix(name, "\n"))
	}
	return passed, written.String(), err
}

// passedFile lists the cases that passed, in the directory of a process.
const passedFile = "passed"

// endWithParent ends this process when the one that started it is gone.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

// notePassed has the process that started this one know that a case passed.
func notePassed(name string) error {
	file, err := os.OpenFile(filepath.Join(*dir, passedFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, name) // one write, so that those of several goroutines do not mix
	return errors.Join(err, file.Close())
}

// cometsPanic is the function in which CometBFT v0.40.0 panics: a node that catches up is about to
// take a block, and loses the peer that sent it. The function looks for the block once more, and
// finds none. In production that ends one node, which a supervisor starts again. Here it ends all
// nodes of the process.
const cometsPanic = "github.com/cometbft/cometbft/blocksync.(*BlockPool).PopRequest("

// endedByCometBFT tells whether a process ended by that panic: the goroutine that panicked was in
// that function itself, in nothing that it called.
func endedByCometBFT(output string) bool {
	_, trace, panicked := strings.Cut(output, "\npanic: ")
	if !panicked {
		return false
	}
	_, stack, _ := strings.Cut(trace, " [running]:\n")
	for line := range strings.Lines(stack) {
		if strings.HasPrefix(line, "panic(") || strings.HasPrefix(line, "runtime.") || strings.HasPrefix(line, "\t") {
			continue
		}
		return strings.HasPrefix(line, cometsPanic)
	}
	return false
}

func TestCometBFTsPanicIsKnownByItsStack(t *testing.T) {
	const found = `    sim_test.go:66: seed 1041: 21.304s
panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x30 pc=0xa31c3c]

goroutine 81022 [running]:
github.com/cometbft/cometbft/blocksync.(*BlockPool).PopRequest(0xc0034a8360)
	/go/pkg/mod/github.com/cometbft/cometbft@v0.40.0/blocksync/pool.go:296 +0x9c
github.com/cometbft/cometbft/blocksync.(*Reactor).poolRoutine(0xc003b3c1c0, 0x0)
	/go/pkg/mod/github.com/cometbft/cometbft@v0.40.0/blocksync/reactor.go:660 +0x1a4c
`
	const noRequest = `
panic: Expected requester to pop, got nothing at height 7

goroutine 81022 [running]:
panic({0x1, 0x2})
	/usr/lib/go/src/runtime/panic.go:787 +0x132
github.com/cometbft/cometbft/blocksync.(*BlockPool).PopRequest(0xc0034a8360)
	/go/pkg/mod/github.com/cometbft/cometbft@v0.40.0/blocksync/pool.go:294 +0x9c
`
	own := strings.Replace(found, "[running]:\n", "[running]:\ngithub.com/chainify-db/chainify/abci/node.stop()\n\t/node.go:1 +0x1\n", 1)
	for output, want := range map[string]bool{
		found: true, noRequest: true, own: false, strings.Replace(found, "\npanic: ", "\n", 1): false, "": false,
		strings.Replace(found, "PopRequest", "PeekTwoBlocks", 1): false,
	} {
		if endedByCometBFT(output) != want {
			t.Errorf("CometBFT's own: %v, want %v:\n%s", !want, want, output)
		}
	}
}

// without are the cases that are not among those that passed.
func without(cases, passed []string) []string {
	return slices.DeleteFunc(slices.Clone(cases), func(name string) bool { return slices.Contains(passed, name) })
}
