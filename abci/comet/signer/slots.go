package signer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The bytes of the file; README.md has the table.
const (
	magic       = "CHFYSIG1"
	pageBytes   = 4096
	fileBytes   = 2 * pageBytes
	recordBytes = 1024
	bodyAt      = 32
	sumAt       = recordBytes - sha256.Size
)

// slots is the open file.
type slots struct {
	file   *os.File
	number uint64 // of the record that counts
}

func (l *Last) encode(number uint64) ([]byte, error) {
	if len(l.SignBytes)+len(l.Signature) > sumAt-bodyAt || len(l.Signature) > 255 {
		return nil, fmt.Errorf("%d signed bytes and a signature of %d do not fit a record", len(l.SignBytes), len(l.Signature))
	}
	out := make([]byte, 0, recordBytes)
	out = append(out, magic...)
	out = binary.BigEndian.AppendUint64(out, number)
	out = binary.BigEndian.AppendUint64(out, uint64(l.Height))
	out = binary.BigEndian.AppendUint32(out, uint32(l.Round))
	out = append(out, byte(l.Step))
	out = binary.BigEndian.AppendUint16(out, uint16(len(l.SignBytes)))
	out = append(out, byte(len(l.Signature)))
	out = append(append(out, l.SignBytes...), l.Signature...)
	out = append(out, make([]byte, sumAt-len(out))...)
	return append(out, checksum(out)...), nil
}

// checksum is that of a record, whole or without its checksum.
func checksum(record []byte) []byte {
	sum := sha256.Sum256(record[:sumAt])
	return sum[:]
}

var errDamaged = errors.New("a damaged record: it may be the newest, so what the key signed last is not known (\"chainify sign-again\" goes on without it)")

// decode accepts exactly what encode makes.
func decode(record []byte) (l Last, number uint64, err error) {
	if len(record) != recordBytes || string(record[:len(magic)]) != magic {
		return l, 0, errDamaged
	}
	if !bytes.Equal(checksum(record), record[sumAt:]) {
		return l, 0, errDamaged
	}
	number = binary.BigEndian.Uint64(record[8:])
	l.Height, l.Round, l.Step = int64(binary.BigEndian.Uint64(record[16:])), int32(binary.BigEndian.Uint32(record[24:])), int8(record[28])
	message, signature := int(binary.BigEndian.Uint16(record[29:])), int(record[31])
	end := bodyAt + message + signature
	if end > sumAt || len(bytes.Trim(record[end:sumAt], "\x00")) > 0 || l.Height < 0 || l.Round < 0 || l.Step < 0 || l.Step > stepPrecommit {
		return Last{}, 0, errDamaged
	}
	l.SignBytes, l.Signature = bytes.Clone(record[bodyAt:bodyAt+message]), bytes.Clone(record[bodyAt+message:end])
	return l, number, nil
}

// newest finds the record that counts in a whole file. A damaged record may be the newest one, so
// newest refuses it, whichever it is.
func newest(file []byte) (last Last, number uint64, err error) {
	if len(file) != fileBytes {
		return last, 0, fmt.Errorf("%d bytes, want %d", len(file), fileBytes)
	}
	first, n, err := decode(file[:recordBytes])
	if err != nil || n%2 != 0 {
		return last, 0, fmt.Errorf("its first record: %w", errDamaged)
	}
	// A release before made files without the second record. In one of this release, which signed
	// nothing yet, both hold the same.
	if n == 0 && len(bytes.Trim(file[pageBytes:], "\x00")) == 0 {
		return first, 0, nil
	}
	second, m, err := decode(file[pageBytes:][:recordBytes])
	if err != nil || m%2 != 1 {
		return last, 0, fmt.Errorf("its second record: %w", errDamaged)
	}
	older, newer, number := &first, &second, m
	if n > m {
		older, newer, number = &second, &first, n
	}
	if n+1 != m && m+1 != n || older.compare(newer.Height, newer.Round, newer.Step) > 0 {
		return last, 0, errors.New("its two records contradict each other")
	}
	return *newer, number, nil
}

// openSlots opens a file that is there.
func openSlots(path string) (*slots, Last, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, Last{}, err
	}
	content := make([]byte, fileBytes+1)
	read, err := file.ReadAt(content, 0)
	if read > fileBytes || err == nil {
		return nil, Last{}, errors.Join(fmt.Errorf("%s: more than %d bytes", path, fileBytes), file.Close())
	}
	last, number, err := newest(content[:read])
	if err != nil {
		return nil, Last{}, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return &slots{file: file, number: number}, last, nil
}

// createSlots makes the file, on disk with its name when it returns.
func createSlots(path string, last Last) error {
	content := make([]byte, fileBytes)
	for number := range uint64(2) {
		record, err := last.encode(number)
		if err != nil {
			return err
		}
		copy(content[number*pageBytes:], record)
	}
	return Replace(path, content)
}

// Replace writes a file in place of one that may be there, on disk with its name when it returns.
func Replace(path string, content []byte) error {
	made := path + ".new"
	file, err := os.OpenFile(made, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(made, path); err != nil {
		return err
	}
	return syncDirectory(path)
}

// save writes the next record over the older one.
func (s *slots) save(last Last) error {
	record, err := last.encode(s.number + 1)
	if err != nil {
		return err
	}
	if _, err := s.file.WriteAt(record, int64((s.number+1)%2)*pageBytes); err != nil {
		return fmt.Errorf("write the last signature: %w", err)
	}
	if err := unix.Fdatasync(int(s.file.Fd())); err != nil {
		return fmt.Errorf("flush the last signature: %w", err)
	}
	s.number++
	return nil
}

func (s *slots) close() error { return s.file.Close() }

func syncDirectory(of string) error {
	dir, err := os.Open(filepath.Dir(of))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
