package archive

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/chainify-db/chainify/abci/must"
)

// allocatedMost is more than reading a small file takes, and less than the files below ask for.
const allocatedMost = 16 << 20

// A file that names more bytes than it has is refused before anybody makes room for them.
func TestAFileThatAsksForMemoryIsRefused(t *testing.T) {
	vector := found(t, "*.changes.0001.parquet")[0]
	footer := bytes.Clone(vector)
	copy(footer[len(footer)-footerEnd:], "\xff\xff\xff\xff")
	page, err := os.ReadFile(filepath.Join("testdata", "page_larger_than_its_file.parquet"))
	must.Do(t, err)
	for name, file := range map[string][]byte{"footer": footer, "a page": page, "no data page of version 1": encodedOtherwise(t)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := readRows(file, func(*changeRow) error { return nil })
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > allocatedMost {
			t.Errorf("%s: %d bytes were allocated", name, n)
		}
	}
}

// encodedOtherwise is a file with a page in another encoding.
func encodedOtherwise(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := parquet.NewGenericWriter[changeRow](&out, parquet.Compression(&parquet.Gzip), parquet.DataPageVersion(2))
	if _, err := w.Write(make([]changeRow, 9)); err != nil {
		t.Fatal(err)
	}
	must.Do(t, w.Close())
	return out.Bytes()
}

// A page whose bytes are more than its header says is refused before the library decompresses it.
func TestAPageThatGrowsIsRefused(t *testing.T) {
	noise := bytes.Repeat([]byte("tamper-evident "), 40_000_000/15)
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	for i := range noise { // so that it stays large when it is compressed
		noise[i] ^= byte(i * i >> 7)
	}
	if _, err := w.Write(noise); err != nil {
		t.Fatal(err)
	}
	must.Do(t, w.Close())
	if out.Len() <= pageCounted {
		t.Fatalf("the page has %d bytes", out.Len())
	}
	h := &format.PageHeader{Type: format.DataPage, CompressedPageSize: int32(out.Len()), UncompressedPageSize: int32(len(noise))}
	h.DataPageHeader = thrift.New(format.DataPageHeader{NumValues: 1})
	if err := checkPage(h, out.Bytes()); err != nil {
		t.Errorf("the page as it is: %v", err)
	}
	h.UncompressedPageSize = 1000
	if err := checkPage(h, out.Bytes()); err == nil || !strings.Contains(err.Error(), "1001 bytes or more") {
		t.Errorf("a page that grows: %v", err)
	}
}
