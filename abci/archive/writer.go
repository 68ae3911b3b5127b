package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/parquet-go/parquet-go"
)

// writer writes the rows of one kind into files of bounded size. Memory is that of one file and one
// row group.
type writer[T any] struct {
	set   *fileSet
	kind  string
	out   bytes.Buffer
	to    *parquet.GenericWriter[T]
	group int // bytes of the present row group, before compression
	rows  uint64
	part  int
}

// fileSet is the files of a range.
type fileSet struct {
	store   Store
	chainID string
	first   uint64
	goal    int // bytes of a file at which it ends
	group   int // bytes of a row group before compression at which it ends
	files   []File
}

func newWriter[T any](set *fileSet, kind string) *writer[T] {
	w := &writer[T]{set: set, kind: kind}
	w.to = parquet.NewGenericWriter[T](&w.out, parquet.Compression(&parquet.Gzip), parquet.DataPageVersion(1), parquet.DataPageStatistics(false), parquet.WriteBufferSize(0),
		parquet.CreatedBy("chainify", "1", ""))
	return w
}

// add adds a row, whose size is given to the byte or so.
func (w *writer[T]) add(ctx context.Context, row T, size int) error {
	if _, err := w.to.Write([]T{row}); err != nil {
		return fmt.Errorf("write %s: %w", w.kind, err)
	}
	w.rows++
	if w.group += size; w.group < w.set.group {
		return nil
	}
	w.group = 0
	if err := w.to.Flush(); err != nil {
		return fmt.Errorf("write %s: %w", w.kind, err)
	}
	if w.out.Len() >= w.set.goal {
		return w.end(ctx)
	}
	return nil
}

// end puts what there is into a file; none for no rows.
func (w *writer[T]) end(ctx context.Context) error {
	if w.rows == 0 {
		return nil
	}
	if err := w.to.Close(); err != nil {
		return fmt.Errorf("write %s: %w", w.kind, err)
	}
	w.part++
	if w.out.Len() > FileBytesMax {
		return fmt.Errorf("write %s: a row group of %d bytes, want at most %d", w.kind, w.out.Len(), FileBytesMax)
	}
	sum := sha256.Sum256(w.out.Bytes())
	f := File{
		Name: name(w.set.chainID, w.set.first, fmt.Sprintf(".%s.%04d.parquet", w.kind, w.part)), Kind: w.kind,
		Bytes: uint64(w.out.Len()), Rows: w.rows, SHA256: sum[:],
	}
	if err := w.set.store.Put(ctx, f.Name, w.out.Bytes()); err != nil {
		return err
	}
	w.set.files = append(w.set.files, f)
	w.out.Reset()
	w.to.Reset(&w.out)
	w.group, w.rows = 0, 0
	return nil
}
