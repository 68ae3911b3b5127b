package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// screen writes what a person sees. Colours and the line that rewrites itself are for terminals
// only.
type screen struct {
	w        io.Writer
	terminal bool
}

func newScreen(f *os.File) screen {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return screen{f, terminal}
}

func (s screen) paint(code, text string) string {
	if !s.terminal || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s screen) good(text string) string { return s.paint("32", text) }
func (s screen) bad(text string) string  { return s.paint("1;31", text) }
func (s screen) bold(text string) string { return s.paint("1", text) }

func (s screen) line(format string, args ...any) { fmt.Fprintf(s.w, format+"\n", args...) }

func (s screen) title(format string, args ...any) { s.line("%s", s.bold(fmt.Sprintf(format, args...))) }

// announce says what happens next, where how long it takes is not the point or is measured
// elsewhere.
func (s screen) announce(format string, args ...any) {
	s.line("%s "+format, append([]any{s.bold("▸")}, args...)...)
}

// step announces what begins and returns what reports its end and how long it took.
func (s screen) step(format string, args ...any) (done func()) {
	started := time.Now()
	fmt.Fprintf(s.w, "%s "+format, append([]any{s.bold("▸")}, args...)...)
	if !s.terminal {
		fmt.Fprintln(s.w)
	}
	return func() {
		if s.terminal {
			fmt.Fprintf(s.w, "  %s\n", seconds(time.Since(started)))
		}
	}
}

// progress rewrites the current line on a terminal and writes nothing elsewhere.
func (s screen) progress(text string) {
	if s.terminal {
		fmt.Fprintf(s.w, "\r\x1b[K  %s", text)
	}
}

// progressEnd leaves the last progress as a line of its own.
func (s screen) progressEnd(text string) {
	if s.terminal {
		fmt.Fprint(s.w, "\r\x1b[K")
	}
	s.line("  %s", text)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
