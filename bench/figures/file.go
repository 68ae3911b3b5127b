package figures

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// stored is how a run is written: its head, then one line for each item.
type stored struct {
	Run
	Figures []*Figure  `json:"figures"`
	Series  []*Series  `json:"series,omitempty"`
	Rows    [][]string `json:"rows,omitempty"`
}

// Read reads a file; an empty one where there is none.
func Read(path string) (*File, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &File{}, nil
	}
	if err != nil {
		return nil, err
	}
	var runs []stored
	if err := json.Unmarshal(raw, &runs); err != nil {
		return nil, fmt.Errorf("%s holds no figures: %w", path, err)
	}
	f := &File{}
	for _, s := range runs {
		run := s.Run
		run.Figures, run.Series, run.Rows = s.Figures, s.Series, s.Rows
		f.Runs = append(f.Runs, &run)
	}
	return f, nil
}

// Text is the file's text: JSON with a line for each figure, series and row.
func (f *File) Text() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("[\n")
	for i, run := range f.Runs {
		if i > 0 {
			b.WriteString(",\n")
		}
		head, err := line(run)
		if err != nil {
			return nil, err
		}
		b.Write(head[:len(head)-1])
		if err := errors.Join(list(&b, "figures", run.Figures), list(&b, "series", run.Series), list(&b, "rows", run.Rows)); err != nil {
			return nil, err
		}
		b.WriteString("}")
	}
	b.WriteString("\n]\n")
	return b.Bytes(), nil
}

func list[T any](b *bytes.Buffer, name string, items []T) error {
	if len(items) == 0 {
		return nil
	}
	fmt.Fprintf(b, ",\n%q: [\n", name)
	for i, item := range items {
		text, err := line(item)
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteString(",\n")
		}
		b.Write(text)
	}
	b.WriteString("\n]")
	return nil
}

// line is a value's JSON, readable: <, > and & stand as they are.
func line(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
