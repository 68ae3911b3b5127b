package gateway

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/chainify-db/chainify/abci/wire"
)

func transactionID(proposal []byte) wire.TxID {
	return sha256.Sum256(append([]byte("chainify/tx/1"), proposal...))
}

func bundleSignBytes(chainID string, bundle []byte) []byte {
	b := append([]byte("chainify/bundle/1"), binary.BigEndian.AppendUint32(nil, uint32(len(chainID)))...)
	b = append(b, chainID...)
	return append(b, bundle...)
}
