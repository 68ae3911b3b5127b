package archive

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

const (
	// pageCounted is from how many compressed bytes on a page is decompressed once before, to count
	// its bytes. DEFLATE makes at most 1,032 bytes of one, so a smaller page has at most 264 MiB.
	pageCounted = 256 << 10
	valuesAByte = 8 // of the smallest type, a boolean
)

// checkPages follows all pages of a file by their headers, before the library makes room for what
// they say. Each lies in its column, and has the form of spec/archive.md. The cost is that of the
// headers, and of decompressing pages of more than pageCounted bytes.
func checkPages(file []byte, groups []format.RowGroup) error {
	for i, group := range groups {
		for j, column := range group.Columns {
			if err := checkColumn(file, &column.MetaData, group.NumRows); err != nil {
				return fmt.Errorf("row group %d, column %d: %w", i, j, err)
			}
		}
	}
	return nil
}

func checkColumn(file []byte, m *format.ColumnMetaData, rows int64) error {
	begin, size := m.DataPageOffset, m.TotalCompressedSize
	switch {
	case m.Codec != format.Gzip || m.DictionaryPageOffset != 0:
		return errors.New("not compressed by gzip, or with a dictionary")
	case begin < int64(len(magic)) || begin > int64(len(file)) || size < 0 || size > int64(len(file))-begin:
		return fmt.Errorf("%d bytes from %d on, the file has %d", size, begin, len(file))
	}
	values := int64(0)
	for pages := file[begin : begin+size]; len(pages) > 0; {
		header, rest, err := takeHeader(pages)
		if err != nil {
			return err
		}
		if err := checkPage(header, rest); err != nil {
			return err
		}
		values += int64(header.DataPageHeader.V.NumValues)
		pages = rest[header.CompressedPageSize:]
	}
	if values != m.NumValues || values != rows {
		return fmt.Errorf("pages of %d values, the column has %d and its group %d rows", values, m.NumValues, rows)
	}
	return nil
}

// takeHeader decodes the header that begins here, and returns the bytes after it.
func takeHeader(pages []byte) (*format.PageHeader, []byte, error) {
	header := new(format.PageHeader)
	rest, err := walkStruct(pages)
	if err == nil {
		err = thrift.Unmarshal(new(thrift.CompactProtocol), pages[:len(pages)-len(rest)], header)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("header of a page: %w", err)
	}
	return header, rest, nil
}

// checkPage judges one page by its header, and by the bytes from the page on.
func checkPage(h *format.PageHeader, rest []byte) error {
	compressed, size, data := int64(h.CompressedPageSize), int64(h.UncompressedPageSize), h.DataPageHeader
	switch {
	case h.Type != format.DataPage || !data.Valid || data.V.Encoding != format.Plain:
		return errors.New("a page that is no data page of version 1 in the encoding PLAIN")
	case compressed < 0 || compressed > int64(len(rest)) || size < 0 || size > FileBytesMax:
		return fmt.Errorf("a page of %d bytes, %d decompressed", compressed, size)
	case data.V.NumValues < 0 || int64(data.V.NumValues) > valuesAByte*size:
		return fmt.Errorf("a page of %d values in %d bytes", data.V.NumValues, size)
	case compressed <= pageCounted:
		return nil
	}
	r, err := gzip.NewReader(bytes.NewReader(rest[:compressed]))
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, io.LimitReader(r, size+1))
	if err == nil && n != size {
		err = fmt.Errorf("a page of %d bytes or more, its header says %d", n, size)
	}
	return err
}

// openParquet opens a file with so many columns, whose footer and pages it has checked.
func openParquet(file []byte, columns int) (*parquet.File, error) {
	metadata, err := readFooter(file, columns)
	if err != nil {
		return nil, fmt.Errorf("no Parquet file: %w", err)
	}
	if err := checkPages(file, metadata.RowGroups); err != nil {
		return nil, fmt.Errorf("no Parquet file of this kind: %w", err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("no Parquet file: %w", err)
	}
	return f, nil
}
