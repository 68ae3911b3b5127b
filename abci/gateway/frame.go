package gateway

import (
	"encoding/binary"
	"fmt"
	"io"
)

const frameBytesMax = 16 << 20

// readFrame reads one frame: u32 length ‖ message. io.EOF only between frames.
func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > frameBytesMax {
		return nil, fmt.Errorf("frame is %d bytes, at most %d are allowed", n, frameBytesMax)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("read frame of %d bytes: %w", n, err)
	}
	return b, nil
}

func writeFrame(w io.Writer, message []byte) error {
	if len(message) > frameBytesMax {
		return fmt.Errorf("frame is %d bytes, at most %d are allowed", len(message), frameBytesMax)
	}
	_, err := w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(message)), uint32(len(message))), message...))
	return err
}
