package ingest

import "time"

// SetRetry shortens the pause after a failed transaction.
func SetRetry(i *Ingester, d time.Duration) { i.retry = d }
