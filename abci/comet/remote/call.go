package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/cometbft/cometbft/abci/types"
)

// call passes a request to the application.
func (s *Server) call(ctx context.Context, request *types.Request) (*types.Response, error) {
	switch r := request.Value.(type) {
	case *types.Request_Echo:
		return types.ToResponseEcho(r.Echo.Message), nil
	case *types.Request_Flush:
		return types.ToResponseFlush(), nil
	case *types.Request_Info:
		return answered(types.ToResponseInfo)(s.app.Info(ctx, r.Info))
	case *types.Request_Query:
		return answered(types.ToResponseQuery)(s.app.Query(ctx, r.Query))
	case *types.Request_CheckTx:
		return answered(types.ToResponseCheckTx)(s.app.CheckTx(ctx, r.CheckTx))
	}
	return s.callConsensus(ctx, request)
}

// callConsensus passes on requests of blocks and snapshots.
func (s *Server) callConsensus(ctx context.Context, request *types.Request) (*types.Response, error) {
	switch r := request.Value.(type) {
	case *types.Request_InitChain:
		return answered(types.ToResponseInitChain)(s.app.InitChain(ctx, r.InitChain))
	case *types.Request_PrepareProposal:
		return answered(types.ToResponsePrepareProposal)(s.app.PrepareProposal(ctx, r.PrepareProposal))
	case *types.Request_ProcessProposal:
		return answered(types.ToResponseProcessProposal)(s.app.ProcessProposal(ctx, r.ProcessProposal))
	case *types.Request_ExtendVote:
		return answered(types.ToResponseExtendVote)(s.app.ExtendVote(ctx, r.ExtendVote))
	case *types.Request_VerifyVoteExtension:
		return answered(types.ToResponseVerifyVoteExtension)(s.app.VerifyVoteExtension(ctx, r.VerifyVoteExtension))
	case *types.Request_FinalizeBlock:
		return answered(types.ToResponseFinalizeBlock)(s.app.FinalizeBlock(ctx, r.FinalizeBlock))
	case *types.Request_Commit:
		return answered(types.ToResponseCommit)(s.app.Commit(ctx, r.Commit))
	case *types.Request_ListSnapshots:
		return answered(types.ToResponseListSnapshots)(s.app.ListSnapshots(ctx, r.ListSnapshots))
	case *types.Request_OfferSnapshot:
		return answered(types.ToResponseOfferSnapshot)(s.app.OfferSnapshot(ctx, r.OfferSnapshot))
	case *types.Request_LoadSnapshotChunk:
		return answered(types.ToResponseLoadSnapshotChunk)(s.app.LoadSnapshotChunk(ctx, r.LoadSnapshotChunk))
	case *types.Request_ApplySnapshotChunk:
		return answered(types.ToResponseApplySnapshotChunk)(s.app.ApplySnapshotChunk(ctx, r.ApplySnapshotChunk))
	}
	// InsertTx and ReapTxs are for a mempool inside the application, which ours does not have.
	return nil, fmt.Errorf("a request of an unknown kind: %T", request.Value)
}

// answered makes a response of what a method of the application returned.
func answered[T any](wrap func(T) *types.Response) func(T, error) (*types.Response, error) {
	return func(answer T, err error) (*types.Response, error) {
		if err != nil {
			return nil, err
		}
		return wrap(answer), nil
	}
}

// ended drops the errors of a connection that the other side, or this one, closed.
func ended(err error) error {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET} {
		if errors.Is(err, end) {
			return nil
		}
	}
	return err
}
