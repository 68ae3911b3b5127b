package archive

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/chainify-db/chainify/abci/must"
)

// withFooter is a file with another footer.
func withFooter(file, footer []byte) []byte {
	n := int(binary.LittleEndian.Uint32(file[len(file)-footerEnd:]))
	out := append(bytes.Clone(file[:len(file)-footerEnd-n]), footer...)
	return append(binary.LittleEndian.AppendUint32(out, uint32(len(footer))), magic...)
}

// structsIn are structs within structs, each as the first field.
func structsIn(deep int) []byte { return bytes.Repeat([]byte{0x1c}, deep) }

// groups is the head of a footer's list of row groups.
func groups(n uint64) []byte { return binary.AppendUvarint([]byte{0x49, 0xfc}, n) }

// falseFooters are some that the library would die of, and what is said of each.
func falseFooters(t testing.TB) map[string][]byte {
	t.Helper()
	nested := &format.FileMetaData{Version: 1, Schema: make([]format.SchemaElement, 9), RowGroups: []format.RowGroup{}}
	for i := range nested.Schema[:8] {
		nested.Schema[i].NumChildren = thrift.New(int32(1))
	}
	nested.Schema[0].NumChildren = thrift.New(int32(8))
	shallow, err := thrift.Marshal(new(thrift.CompactProtocol), nested)
	must.Do(t, err)
	nested.Schema = make([]format.SchemaElement, elementsMax)
	long, err := thrift.Marshal(new(thrift.CompactProtocol), nested)
	must.Do(t, err)
	return map[string][]byte{
		"a list of 2147483647 elements": groups(1<<31 - 1),
		"a list of 131073 elements":     append(groups(elementsMax+1), make([]byte, elementsMax+1)...),
		"nested more than 8 deep":       structsIn(1 << 20),
		"it ends within a value":        groups(0)[:1],
		"a value of the type MAP":       {0x1b, 0xff, 0xff, 0xff, 0xff, 0x07, 0x11},
		"of the type TRUE":              {0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07},
		"1 bytes after it":              {0, 0},
		"has 1 columns within":          shallow,
		"a schema of 131072 elements":   long,
	}
}

// A footer is refused before the library makes room for what it says, or follows it down.
func TestFalseFootersAreRefused(t *testing.T) {
	vector := found(t, "*.changes.0001.parquet")[0]
	for want, footer := range falseFooters(t) {
		err := readRows(withFooter(vector, footer), func(*changeRow) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	footer, err := footerOf(vector)
	must.Do(t, err)
	if err := readRows(withFooter(vector, footer), func(*changeRow) error { return nil }); err != nil {
		t.Errorf("the footer as it is: %v", err)
	}
	for n := range footer {
		if _, err := walkStruct(footer[:n]); err == nil {
			t.Errorf("%d bytes of it are taken", n)
		}
	}
	if _, _, err := takeHeader(structsIn(1 << 20)); err == nil {
		t.Error("the header of a page nests without end")
	}
}

// The footers of all files that the archive writes are gone over whole.
func TestOwnFootersAreTaken(t *testing.T) {
	d := newDatabase(t, 12)
	store := Directory(t.TempDir())
	a := New(options(t, d, store))
	a.goal, a.group = 2000, 400
	archiveAll(t, a)
	paths, err := filepath.Glob(filepath.Join(string(store), "*.parquet"))
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		file, err := os.ReadFile(path)
		must.Do(t, err)
		footer, err := footerOf(file)
		must.Do(t, err)
		if rest, err := walkStruct(footer); err != nil || len(rest) > 0 {
			t.Errorf("%s: %d bytes are left, %v", path, len(rest), err)
		}
	}
}

// A struct that is gone over has for the library the same end, where that takes it at all.
func FuzzWalkStruct(f *testing.F) {
	for _, kind := range []string{Blocks, Votes, Transactions, Changes, Columns} {
		for _, file := range found(f, "*."+kind+".0001.parquet") {
			footer, err := footerOf(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(footer)
			f.Add(file[len(magic):])
		}
	}
	for _, footer := range falseFooters(f) {
		if len(footer) < 1<<10 {
			f.Add(footer)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		rest, err := walkStruct(raw)
		if err != nil {
			return
		}
		for _, v := range []any{new(format.FileMetaData), new(format.PageHeader)} {
			r := new(thrift.CompactProtocol).NewReaderFromBytes(raw)
			if err := thrift.NewDecoder(r).Decode(v); err == nil && r.BytesRead() != len(raw)-len(rest) {
				t.Errorf("%x: %T ends at %d, want %d", raw, v, r.BytesRead(), len(raw)-len(rest))
			}
		}
	})
}
