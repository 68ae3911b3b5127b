package holder

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	privvalproto "github.com/cometbft/cometbft/proto/tendermint/privval"
	"github.com/cometbft/cometbft/types"
	"github.com/cosmos/gogoproto/proto"
	"golang.org/x/sys/unix"
)

const (
	// connectionsMax bounds the connections: a node has one for each key, a command one.
	connectionsMax = 64
	// idleLimit ends a connection on which nothing is asked. The next call connects again.
	idleLimit = time.Minute
	// frameLimit bounds reading a request that began, and writing an answer.
	frameLimit = 5 * time.Second
)

// Server signs for the processes of some users.
type Server struct {
	// ChainID is that of the genesis; empty: there is none yet.
	ChainID string
	// Users are the numbers of those who may ask.
	Users []uint32
	// Keys lists the keys that are there.
	Keys func() ([]Key, error)
	// Validator opens a validator key with what it signed last, once for each process.
	Validator func(Key) (types.PrivValidator, error)
	Log       *slog.Logger

	mu         sync.Mutex // one request at a time: the guard of a key is not made for more
	keys       map[string]Key
	validators map[string]types.PrivValidator
	failed     string // the last error that was logged
}

// Serve answers until ctx ends. It closes the listener.
func (s *Server) Serve(ctx context.Context, listener *net.UnixListener) error {
	s.keys, s.validators = map[string]Key{}, map[string]types.PrivValidator{}
	var connections sync.WaitGroup
	defer connections.Wait()
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	places := make(chan struct{}, connectionsMax)
	for {
		c, err := listener.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		if err := s.admit(c); err != nil {
			s.Log.Warn("refused a connection", "reason", err)
			_ = c.Close()
			continue
		}
		select {
		case places <- struct{}{}:
		default:
			_ = c.Close() // the other end connects again
			continue
		}
		connections.Go(func() {
			defer func() { <-places }()
			defer func() { _ = c.Close() }()
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			for s.answer(c) == nil { //nolint:revive // an error ends the connection
			}
		})
	}
}

// admit refuses processes of other users, as the kernel names them.
func (s *Server) admit(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if !slices.Contains(s.Users, peer.Uid) {
		return fmt.Errorf("process %d is of user %d, who may not ask", peer.Pid, peer.Uid)
	}
	return nil
}

// answer answers one request. An error ends the connection.
func (s *Server) answer(c *net.UnixConn) error {
	if err := c.SetDeadline(time.Now().Add(idleLimit)); err != nil {
		return err
	}
	op, rest, err := readFrame(deadlined{c}, frameBytesMax)
	if err != nil {
		return err
	}
	answer, err := s.do(op, rest)
	if err := c.SetDeadline(time.Now().Add(frameLimit)); err != nil {
		return err
	}
	if err != nil {
		text := err.Error()
		return writeFrame(c, refused, []byte(text[:min(len(text), refusalBytesMax)]))
	}
	return writeFrame(c, answered, answer)
}

// deadlined is a connection of which a request that began has to come in time.
type deadlined struct{ net.Conn }

func (d deadlined) Read(into []byte) (int, error) {
	n, err := d.Conn.Read(into)
	if err == nil && n > 0 && len(into) <= 4 { // the head of a frame
		err = d.SetDeadline(time.Now().Add(frameLimit))
	}
	return n, err
}

// do answers a request, and logs each new reason why nothing is signed.
func (s *Server) do(op byte, rest []byte) (answer []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != s.failed && text != "" {
			s.Log.Error("does not sign", "reason", text)
		}
		s.failed = text
	}()
	if op == opKeys {
		if len(rest) > 0 {
			return nil, errors.New("a request for the keys says nothing more")
		}
		return s.list()
	}
	if len(rest) < ed25519.PublicKeySize {
		return nil, errors.New("a request names a key")
	}
	key, err := s.key(rest[:ed25519.PublicKeySize])
	if err != nil {
		return nil, err
	}
	message := rest[ed25519.PublicKeySize:]
	switch op {
	case opSign:
		if err := May(key.Kind(), s.ChainID, message); err != nil {
			return nil, err
		}
		return key.Sign(message)
	case opVote:
		return s.vote(key, message)
	}
	return nil, fmt.Errorf("unknown operation %d", op)
}

func (s *Server) list() ([]byte, error) {
	keys, err := s.Keys()
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		s.keys[string(key.Public())] = key
	}
	return encodeKeys(keys), nil
}

func (s *Server) key(public []byte) (Key, error) {
	if key := s.keys[string(public)]; key != nil {
		return key, nil
	}
	if _, err := s.list(); err != nil {
		return nil, err
	}
	key := s.keys[string(public)]
	if key == nil {
		return nil, fmt.Errorf("there is no key %x", public)
	}
	return key, nil
}

// vote answers a request for a vote or a proposal. An error stands in the answer, too.
func (s *Server) vote(key Key, raw []byte) ([]byte, error) {
	if key.Kind() != Validator {
		return nil, errors.New("a gateway key signs no votes")
	}
	if s.ChainID == "" {
		return nil, errors.New("the key holder has no genesis.json: it signs genesis parts alone")
	}
	var request privvalproto.Message
	if err := proto.Unmarshal(raw, &request); err != nil {
		return nil, fmt.Errorf("a request for a vote: %w", err)
	}
	guarded := s.validators[string(key.Public())]
	if guarded == nil {
		var err error
		if guarded, err = s.Validator(key); err != nil {
			return nil, err
		}
		s.validators[string(key.Public())] = guarded
	}
	return sign(guarded, s.ChainID, &request)
}

// sign signs the vote or proposal of a request. The answer is CometBFT's, too.
func sign(guarded types.PrivValidator, chainID string, request *privvalproto.Message) ([]byte, error) {
	var answer privvalproto.Message
	asked := ""
	switch r := request.Sum.(type) {
	case *privvalproto.Message_SignVoteRequest:
		if r.SignVoteRequest == nil || r.SignVoteRequest.Vote == nil {
			return nil, errors.New("a request for a vote has none")
		}
		if asked = r.SignVoteRequest.ChainId; asked == chainID {
			if err := guarded.SignVote(chainID, r.SignVoteRequest.Vote); err != nil {
				return nil, err
			}
			answer.Sum = &privvalproto.Message_SignedVoteResponse{SignedVoteResponse: &privvalproto.SignedVoteResponse{Vote: *r.SignVoteRequest.Vote}}
		}
	case *privvalproto.Message_SignProposalRequest:
		if r.SignProposalRequest == nil || r.SignProposalRequest.Proposal == nil {
			return nil, errors.New("a request for a proposal has none")
		}
		if asked = r.SignProposalRequest.ChainId; asked == chainID {
			if err := guarded.SignProposal(chainID, r.SignProposalRequest.Proposal); err != nil {
				return nil, err
			}
			answer.Sum = &privvalproto.Message_SignedProposalResponse{SignedProposalResponse: &privvalproto.SignedProposalResponse{Proposal: *r.SignProposalRequest.Proposal}}
		}
	default:
		return nil, errors.New("a validator key signs votes and proposals alone")
	}
	if answer.Sum == nil {
		return nil, fmt.Errorf("the request is one of chain %q, want %q", asked, chainID)
	}
	return proto.Marshal(&answer)
}
