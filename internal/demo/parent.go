package demo

import (
	"context"
	"time"
)

// endWithParent calls end when this process gets another parent, which means that the one that started
// it has ended. It returns then, or when the context ends.
func endWithParent(ctx context.Context, parent func() int, end func()) {
	first := parent()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if parent() != first {
				end()
				return
			}
		}
	}
}
