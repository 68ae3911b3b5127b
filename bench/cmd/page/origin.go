package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// origin is what made a section of the page, as the section says itself: it may be from an
// earlier run.
type origin struct {
	section, commit, processor string
	short                      bool
}

var (
	commitLine    = regexp.MustCompile(`(?m)^(?:.*, )?chainify ([0-9a-f]+(?:-dirty)?|unknown)[,.]`)
	processorLine = regexp.MustCompile(`(?m)^cores \d+, cpu ([^,]*),`)
	commandLine   = regexp.MustCompile("(?m)^Run with `([^`]*)`")
)

func originOf(section, text string) origin {
	return origin{section, first(commitLine, text), first(processorLine, text), slices.Contains(strings.Fields(first(commandLine, text)), "-short")}
}

// first is what the expression's group matches first; empty for none.
func first(line *regexp.Regexp, text string) string {
	if found := line.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

// warning says what keeps the sections from being compared with each other, or from being taken
// as they are; empty when nothing does.
func warning(origins []origin) string {
	var problems []string
	for _, of := range []struct {
		what string
		get  func(origin) string
	}{
		{"commits", func(o origin) string { return o.commit }},
		{"processors", func(o origin) string { return o.processor }},
	} {
		if text := differing(origins, of.get); text != "" {
			problems = append(problems, fmt.Sprintf("different %s (%s)", of.what, text))
		}
	}
	var short []string
	for _, o := range origins {
		if o.short {
			short = append(short, o.section)
		}
	}
	if len(short) > 0 {
		problems = append(problems, "runs with `-short` ("+strings.Join(short, ", ")+")")
	}
	if len(problems) == 0 {
		return ""
	}
	return "**Warning:** the sections are of " + strings.Join(problems, ", and of ") + ".\n\n"
}

// differing lists what the sections have, each with its sections; empty when all have the same.
func differing(origins []origin, get func(origin) string) string {
	var values []string
	of := map[string][]string{}
	for _, o := range origins {
		value := get(o)
		if value == "" {
			value = "unknown"
		}
		if of[value] == nil {
			values = append(values, value)
		}
		of[value] = append(of[value], o.section)
	}
	if len(values) < 2 {
		return ""
	}
	for i, value := range values {
		values[i] = value + ": " + strings.Join(of[value], ", ")
	}
	return strings.Join(values, "; ")
}
