package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/chainify-db/chainify/abci/anchor"
)

// historyBlocksMin keeps what late clients and local changes still ask for: many times the blocks
// for which a transaction is valid.
const historyBlocksMin = 10_000

// ArchiveIsURL tells a store's URL from a directory.
func ArchiveIsURL(place string) bool {
	return strings.HasPrefix(place, "https://") || strings.HasPrefix(place, "http://")
}

func (r *Retention) checkArchive() error {
	if r.ArchiveEvery <= 0 {
		return errors.New("retention.archive_every: must be positive")
	}
	if n := r.HistoryBlocks; n != 0 && n < historyBlocksMin {
		return fmt.Errorf("retention.history_blocks: %d, want at least %d, or 0 to keep all", n, historyBlocksMin)
	}
	if r.HistoryBlocks != 0 && r.Archive == "" {
		return errors.New("retention.history_blocks: needs archive, since only what is archived is dropped")
	}
	if !ArchiveIsURL(r.Archive) {
		if r.ArchiveS3Region != "" || r.ArchiveS3CredentialsFile != "" {
			return errors.New("retention.archive: must be a URL of https or http where archive_s3_region or archive_s3_credentials_file is set")
		}
		return nil
	}
	if r.ArchiveS3Region == "" {
		return errors.New("retention.archive_s3_region: needed for a URL in archive")
	}
	if _, err := anchor.NewHTTP(r.Archive, ""); err != nil {
		return fmt.Errorf("retention.archive: %w", err)
	}
	return nil
}
