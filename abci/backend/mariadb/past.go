package mariadb

import (
	"context"
	"fmt"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// errLater is the error of what MariaDB organisations do not do yet (spec/engines.md).
var errLater = fmt.Errorf("%w: not made for MariaDB", backend.ErrNoHelp)

// ReadPast is not there yet.
func (b *Backend) ReadPast(context.Context) (backend.Past, error) { return nil, errLater }

// RestoreBlock is not there yet.
func (b *Backend) RestoreBlock(context.Context, backend.Past, *wire.OrderedBlock, wire.Hash) error {
	return errLater
}
