package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"
)

// WriteFrame writes u32 length ‖ message with one Write (spec/node-socket.md).
func WriteFrame(w io.Writer, message []byte) error {
	if len(message) > FrameBytesMax {
		return fieldErrorf("frame", "%d bytes, want at most %d", len(message), FrameBytesMax)
	}
	frame := make([]byte, 0, 4+len(message))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(message)))
	if _, err := w.Write(append(frame, message...)); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}

// ErrNoRoom is what ReadFrameWithin returns of a frame that room refused.
var ErrNoRoom = errors.New("no room for the frame")

// headBytes is the length of the kept beginning of a frame that there is no room for. It has the
// request's number.
const headBytes = 16

// ReadFrame reads one frame's message. The end of the stream before a frame is io.EOF, within one
// io.ErrUnexpectedEOF. A frame over the bound is a *FieldError, and the connection must be closed.
// Memory grows with what arrives, not with the length claimed.
func ReadFrame(r io.Reader) ([]byte, error) {
	return ReadFrameWithin(r, func(int) bool { return true })
}

// ReadFrameWithin is ReadFrame where room says whether there is room for a message of so many
// bytes. One that there is no room for is read past, and its beginning returned beside ErrNoRoom:
// PeekRequest tells whom to answer, and the connection goes on.
func ReadFrameWithin(r io.Reader, room func(bytes int) bool) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > FrameBytesMax {
		return nil, fieldErrorf("frame", "%d bytes, want at most %d", n, FrameBytesMax)
	}
	if !room(int(n)) {
		begin, err := io.ReadAll(io.LimitReader(r, int64(min(n, headBytes))))
		if err == nil {
			_, err = io.CopyN(io.Discard, r, int64(n)-int64(len(begin)))
		}
		if err != nil {
			return nil, fmt.Errorf("read past a frame: %w", err)
		}
		return begin, ErrNoRoom
	}
	message, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return nil, fmt.Errorf("read frame: %w", err)
	}
	if uint32(len(message)) != n {
		return nil, fmt.Errorf("read frame: %d bytes of %d: %w", len(message), n, io.ErrUnexpectedEOF)
	}
	return message, nil
}

// PeekRequest returns the number of a request of which the beginning is there, 0 when it has none.
func PeekRequest(begin []byte) uint64 { return peekNumber(begin, 1) }

// DecodeNodeRequest reads a request from the socket and checks its bounds; signed proposals are
// left to DecodeSignedProposal. A request that breaks only a bound is returned beside the error, so
// that the error can be answered to its number.
func DecodeNodeRequest(raw []byte) (*NodeRequest, error) {
	m := &NodeRequest{}
	if err := decodeStrict("node request", raw, FrameBytesMax, requestShape, m); err != nil {
		return nil, err
	}
	switch body := m.Body.(type) {
	case *NodeRequest_Submit:
		return m, checkSubmit(body.Submit)
	case *NodeRequest_Wait:
		for i, id := range body.Wait.Ids {
			if len(id) != len(TxID{}) {
				return m, fieldErrorf(fmt.Sprintf("wait.ids[%d]", i), "%d bytes, want %d", len(id), len(TxID{}))
			}
		}
	case *NodeRequest_SubmitSigned:
		if len(body.SubmitSigned.Proposals) == 0 {
			return m, fieldErrorf("submit_signed.proposals", "none")
		}
	case *NodeRequest_Status, *NodeRequest_Rejoin, *NodeRequest_Registry, *NodeRequest_Clients:
	case *NodeRequest_Governance:
		return m, checkGovernance(body.Governance.GetChange())
	case *NodeRequest_Client:
		return m, checkClientChange(body.Client.GetChange())
	default:
		return m, fieldErrorf("node request", "asks for nothing")
	}
	return m, nil
}

func checkSubmit(s *SubmitRequest) error {
	if err := CheckRole(s.Role); err != nil {
		return fmt.Errorf("submit.%w", err)
	}
	if len(s.Statements) == 0 {
		return fieldErrorf("submit.statements", "none")
	}
	for i, statement := range s.Statements {
		if err := checkContent(statement); err != nil {
			return fmt.Errorf("submit.statements[%d].%w", i, err)
		}
	}
	return nil
}

// DecodeNodeResponse reads an answer from the socket.
func DecodeNodeResponse(raw []byte) (*NodeResponse, error) {
	m := &NodeResponse{}
	return m, decodeStrict("node response", raw, FrameBytesMax, nil, m)
}

// WriteMessage writes a message as one frame.
func WriteMessage(w io.Writer, m proto.Message) error { return WriteFrame(w, Encode(m)) }
