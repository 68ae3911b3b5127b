package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// parseNumber reads decimal digits and nothing else. Other readers take the first digits of 1e9,
// and 010 for eight.
func parseNumber(text string, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil || strconv.FormatUint(n, 10) != text:
		return 0, fmt.Errorf("%q is not a number in decimal digits", text)
	case n > most:
		return 0, fmt.Errorf("%s is more than %d", text, most)
	}
	return n, nil
}

// number is a flag's value that parseNumber reads.
type number[N int | uint32 | uint64] struct{ to *N }

func (n number[N]) String() string {
	if n.to == nil {
		return "0"
	}
	return fmt.Sprint(*n.to)
}

// Type implements pflag.Value.
func (n number[N]) Type() string { return fmt.Sprintf("%T", *new(N)) }

// Set implements pflag.Value.
func (n number[N]) Set(text string) error {
	most := uint64(1<<64 - 1)
	switch any(*n.to).(type) {
	case int:
		most = 1<<31 - 1
	case uint32:
		most = 1<<32 - 1
	}
	parsed, err := parseNumber(text, most)
	if err == nil {
		*n.to = N(parsed)
	}
	return err
}

// numberFlag is a flag that is a number; to holds what it is when it is left out.
func numberFlag[N int | uint32 | uint64](cmd *cobra.Command, to *N, name, usage string) {
	cmd.Flags().Var(number[N]{to}, name, usage)
}

// powers are voting powers, separated by commas.
type powers struct{ to *[]int64 }

func (p powers) String() string { return "" }

// Type implements pflag.Value.
func (p powers) Type() string { return "numbers" }

// Set implements pflag.Value.
func (p powers) Set(text string) error {
	for _, field := range strings.Split(text, ",") {
		n, err := parseNumber(field, 1<<63-1)
		if err != nil {
			return err
		}
		*p.to = append(*p.to, int64(n))
	}
	return nil
}
