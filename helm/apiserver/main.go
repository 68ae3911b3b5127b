// Command apiserver runs a Kubernetes API server with an etcd of its own, in a temporary directory and on loopback alone, and gives it manifests. Nothing but the
// two is there: objects are admitted, validated and kept, no pod is started.
//
// usage: apiserver <PLAN
//
// A plan has a line for each manifest:
//
//	taken NAMESPACE FILE         every object must be taken without a warning; it is kept, so that FILE is an upgrade of what came before
//	refused NAMESPACE FILE WHAT  in dry run, an object must be refused for a reason with WHAT in it
//
// A namespace is made when it is first named, and takes pods of the Pod Security Standard "restricted" alone.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

const limit = 5 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := run(ctx, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		cancel()
		os.Exit(1)
	}
}

func run(ctx context.Context, plan io.Reader) error {
	server, err := start(ctx)
	if err != nil {
		return fmt.Errorf("start the API server: %w", err)
	}
	defer server.stop()
	cluster, err := connect(server.config)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	var failed []error
	taken, refused := map[string]int{}, 0
	lines := bufio.NewScanner(plan)
	for lines.Scan() {
		verb, namespace, file, what, err := parse(lines.Text())
		if err != nil {
			return err
		}
		results, err := cluster.apply(ctx, namespace, file, verb == "refused")
		if err != nil {
			return fmt.Errorf("apply %s: %w", file, err)
		}
		if verb == "refused" {
			if err := expect(file, what, results); err != nil {
				failed = append(failed, err)
			} else {
				refused++
			}
			continue
		}
		for _, result := range results {
			if result.err != nil {
				failed = append(failed, fmt.Errorf("%s: %s: %w", file, result.object, result.err))
			} else {
				taken[result.kind]++
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	for _, kind := range slices.Sorted(maps.Keys(taken)) {
		fmt.Printf("%-26s %3d taken\n", kind, taken[kind])
	}
	fmt.Printf("%-26s %3d refused\n", "wrong manifests", refused)
	return errors.Join(failed...)
}

func parse(line string) (verb, namespace, file, what string, err error) {
	words := append(strings.SplitN(line, " ", 4), "")
	switch {
	case words[0] == "taken" && len(words) == 4, words[0] == "refused" && len(words) == 5 && words[3] != "":
		return words[0], words[1], words[2], words[3], nil
	}
	return "", "", "", "", fmt.Errorf("plan: %q is neither \"taken NAMESPACE FILE\" nor \"refused NAMESPACE FILE WHAT\"", line)
}

// expect is an error unless one of the results is a refusal with what in it.
func expect(file, what string, results []result) error {
	var told []error
	for _, result := range results {
		if result.err != nil && strings.Contains(result.err.Error(), what) {
			return nil
		}
		told = append(told, result.err)
	}
	if err := errors.Join(told...); err != nil {
		return fmt.Errorf("%s: refused without %q: %w", file, what, err)
	}
	return fmt.Errorf("%s: taken, and not refused with %q", file, what)
}
