package pages

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/chainify-db/chainify/bench/figures"
	"github.com/chainify-db/chainify/bench/report"
)

// A copy of a figure within a line, and a block of lines.
var (
	copied = regexp.MustCompile(`<!-- figure (.*?) -->.*?<!-- / -->`)
	block  = regexp.MustCompile(`(?ms)^<!-- figures (.*?) -->\n.*?^<!-- /figures -->$`)
	marks  = regexp.MustCompile(`<!-- /?figures?\b|<!-- / -->`)
)

// copier fills in the figures of documents.
type copier struct {
	file   *figures.File
	blocks map[string]string
	named  map[string]bool // figures and series that documents name; nil: not noted
}

// fill writes a document's copies anew. A mark names a figure, or a series as
// `benchmark/system@point`. Behind ` : ` stands the form: see form.
func (c copier) fill(text string) (string, error) {
	var problems []error
	found := 0
	text = block.ReplaceAllStringFunc(text, func(whole string) string {
		name := block.FindStringSubmatch(whole)[1]
		body, known := c.blocks[name]
		if !known {
			problems = append(problems, fmt.Errorf("there is no block %q", name))
		}
		found += 2
		return fmt.Sprintf("<!-- figures %s -->\n%s<!-- /figures -->", name, body)
	})
	text = copied.ReplaceAllStringFunc(text, func(whole string) string {
		mark := copied.FindStringSubmatch(whole)[1]
		value, err := c.value(mark)
		problems = append(problems, err)
		found += 2
		return fmt.Sprintf("<!-- figure %s -->%s<!-- / -->", mark, value)
	})
	if all := len(marks.FindAllString(text, -1)); all != found {
		problems = append(problems, fmt.Errorf("%d marks of figures are not in pairs", all-found))
	}
	return text, errors.Join(problems...)
}

// value is what a mark asks for.
func (c copier) value(mark string) (string, error) {
	name, words, _ := strings.Cut(mark, " : ")
	if c.named != nil {
		c.named[name] = true
	}
	n, err := c.find(name)
	if err != nil {
		return "", err
	}
	text, err := n.form(strings.Fields(words))
	if err != nil {
		return "", fmt.Errorf("%s: %w", mark, err)
	}
	return text, nil
}

// number is what a mark names.
type number struct {
	value, least, most float64
	unit               string
	count              int
	origin             figures.Origin
	machine            string
	cpu                report.Spread
	detail             map[string]float64
}

// find is the figure or series of a name.
func (c copier) find(name string) (number, error) {
	benchmark, system, ofSeries := strings.Cut(name, "/")
	if !ofSeries {
		f, run := c.file.Figure(name)
		if f == nil {
			return number{}, fmt.Errorf("there is no figure %q", name)
		}
		return number{value: f.Value, least: f.Min, most: f.Max, unit: f.Unit, count: f.Count, origin: run.Of(f), machine: machineOf(c.file, run)}, nil
	}
	var point float64
	if before, at, has := strings.Cut(system, "@"); has {
		system = before
		var err error
		if point, err = strconv.ParseFloat(at, 64); err != nil {
			return number{}, fmt.Errorf("the point of %q: %w", name, err)
		}
	}
	run := c.file.Run(benchmark)
	if run == nil || run.Find(system, point) == nil {
		return number{}, fmt.Errorf("there is no series %q", name)
	}
	s := run.Find(system, point)
	return number{s.Value, s.Min, s.Max, s.Unit, s.Count, run.Origin, machineOf(c.file, run), s.Cost(), s.Detail}, nil
}

// form writes a number by words. `cpu` or the name of a detail stands in place of the value. `/4`
// divides, `*4` multiplies, and `.2` gives two significant digits in place of three. The last kind
// are the shapes; `unit` is the value with its unit.
func (n number) form(words []string) (string, error) {
	shape, print := "", report.Number
	for _, word := range words {
		switch {
		case slices.Contains(shapes, word):
			shape = word
		case word == "cpu":
			n.value, n.least, n.most, n.unit = n.cpu.Median, n.cpu.Min, n.cpu.Max, "µs"
		case word[0] == '/', word[0] == '*':
			by, err := strconv.ParseFloat(word[1:], 64)
			if err != nil || by == 0 {
				return "", fmt.Errorf("%q is no factor", word)
			}
			if word[0] == '/' {
				by = 1 / by
			}
			n.value, n.least, n.most = n.value*by, n.least*by, n.most*by
		case word[0] == '.':
			digits, err := strconv.Atoi(word[1:])
			if err != nil || digits < 1 {
				return "", fmt.Errorf("%q is no number of digits", word)
			}
			print = func(v float64) string { return significant(v, digits) }
		default:
			value, known := n.detail[word]
			if !known {
				return "", fmt.Errorf("%q is no form, and no detail", word)
			}
			n.value = value
		}
	}
	return n.shaped(shape, print), nil
}

var shapes = []string{"range", "min", "max", "unit", "commit", "date"}

func (n number) shaped(shape string, print func(float64) string) string {
	switch shape {
	case "range":
		if n.count == 1 {
			return "one run"
		}
		return print(n.least) + " – " + print(n.most)
	case "min":
		return print(n.least)
	case "max":
		return print(n.most)
	case "unit":
		return unit(print(n.value), n.unit)
	case "commit":
		return commitOf(n.origin)
	case "date":
		return n.origin.Date
	}
	return print(n.value)
}

// significant prints so many significant digits, and whole numbers in full.
func significant(v float64, digits int) string {
	if text := fmt.Sprintf("%.*g", digits, v); !strings.Contains(text, "e") {
		return text
	}
	rounded, _ := strconv.ParseFloat(fmt.Sprintf("%.*g", digits, v), 64) // of its own making
	return report.Number(rounded)
}
