package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

const (
	magic     = "PAR1"
	footerEnd = 4 + len(magic) // the length of a footer, and the magic bytes after it
	// structsDeep bounds structs within structs: the unit of a column's time is the sixth.
	structsDeep = 8
	// elementsMax bounds the elements of all lists of a footer. Those of 3,900 row groups of eight
	// columns are as many. The library makes 560 bytes of room for an element before it reads it.
	elementsMax = 1 << 17
)

// footerOf returns the bytes of a file's footer.
func footerOf(file []byte) ([]byte, error) {
	if len(file) < len(magic)+footerEnd || string(file[:len(magic)]) != magic || string(file[len(file)-len(magic):]) != magic {
		return nil, fmt.Errorf("its %d bytes do not begin and end with %s", len(file), magic)
	}
	rest := file[len(magic) : len(file)-footerEnd]
	n := binary.LittleEndian.Uint32(file[len(file)-footerEnd:])
	if uint64(n) > uint64(len(rest)) {
		return nil, fmt.Errorf("its footer has %d bytes of %d", n, len(file))
	}
	return rest[len(rest)-int(n):], nil
}

// readFooter decodes the footer of a file with so many columns. The library decodes it once more:
// it would make room for what false lists and false schemas say before it finds them false.
func readFooter(file []byte, columns int) (*format.FileMetaData, error) {
	footer, err := footerOf(file)
	if err != nil {
		return nil, err
	}
	rest, err := walkStruct(footer)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes after it", len(rest))
	}
	if err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	m := new(format.FileMetaData)
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), footer, m); err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	if len(m.Schema) != 1+columns || m.Schema[0].NumChildren.V != int32(columns) {
		return nil, fmt.Errorf("footer: a schema of %d elements, want a flat one of %d columns", len(m.Schema), columns)
	}
	for i, column := range m.Schema[1:] {
		if column.NumChildren.V != 0 {
			return nil, fmt.Errorf("footer: column %d has %d columns within", i, column.NumChildren.V)
		}
	}
	for i, group := range m.RowGroups {
		if len(group.Columns) != columns {
			return nil, fmt.Errorf("footer: row group %d has %d columns, want %d", i, len(group.Columns), columns)
		}
	}
	return m, nil
}

var errCut = errors.New("it ends within a value")

// walk goes over a struct in Thrift's compact protocol, and keeps nothing of it. It takes the types
// alone that footers and headers of pages have: no map, no set, no list of lists or of booleans.
type walk struct {
	rest     *bytes.Buffer
	elements uint64 // that lists may still have
}

// walkStruct returns the bytes after the struct that begins here. An error says that a decoder
// would go wrong, or make room for more than there is.
func walkStruct(raw []byte) ([]byte, error) {
	w := &walk{bytes.NewBuffer(raw), elementsMax}
	err := w.structure(structsDeep)
	return w.rest.Bytes(), err
}

func (w *walk) structure(deep int) error {
	if deep == 0 {
		return fmt.Errorf("structs are nested more than %d deep", structsDeep)
	}
	for {
		head, err := w.rest.ReadByte()
		if err != nil {
			return errCut
		}
		if head == byte(thrift.STOP) {
			return nil
		}
		if head>>4 == 0 { // the field's number is a value of its own
			if _, err := w.varint(); err != nil {
				return err
			}
		}
		if kind := thrift.Type(head & 0xf); kind == thrift.LIST {
			err = w.list(deep)
		} else if kind != thrift.TRUE && kind != thrift.FALSE { // these are within the head
			err = w.value(kind, deep)
		}
		if err != nil {
			return err
		}
	}
}

func (w *walk) value(kind thrift.Type, deep int) error {
	switch kind {
	case thrift.I8:
		return w.skip(1)
	case thrift.I16, thrift.I32, thrift.I64:
		_, err := w.varint()
		return err
	case thrift.DOUBLE:
		return w.skip(8)
	case thrift.BINARY:
		n, err := w.varint()
		if err != nil {
			return err
		}
		return w.skip(n)
	case thrift.STRUCT:
		return w.structure(deep - 1)
	default:
		return fmt.Errorf("a value of the type %s", kind)
	}
}

// list goes over a list. Each element has a byte at least.
func (w *walk) list(deep int) error {
	head, err := w.rest.ReadByte()
	if err != nil {
		return errCut
	}
	kind, size := thrift.Type(head&0xf), uint64(head>>4)
	if size == 0xf {
		if size, err = w.varint(); err != nil {
			return err
		}
	}
	if kind == thrift.TRUE || kind == thrift.FALSE || size > uint64(w.rest.Len()) || size > w.elements {
		return fmt.Errorf("a list of %d elements of the type %s in %d bytes, and all lists may have %d", size, kind, w.rest.Len(), w.elements)
	}
	w.elements -= size
	for range size {
		if err := w.value(kind, deep); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) varint() (uint64, error) {
	n, size := binary.Uvarint(w.rest.Bytes())
	if size <= 0 {
		return 0, errCut
	}
	return n, w.skip(uint64(size))
}

func (w *walk) skip(n uint64) error {
	if n > uint64(w.rest.Len()) {
		return errCut
	}
	w.rest.Next(int(n))
	return nil
}
