package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"odradek/conformance/checks"
)

// saw prints the offset, epoch and timestamp (after `base`, in seconds) of partition 0, and returns the offset.
func saw(w *checks.World, what string, listed kadm.ListedOffsets, err error, topic string, base time.Time) int64 {
	w.OK(err, "list offsets: "+what)
	found, _ := listed.Lookup(topic, 0)
	at := found.Timestamp
	if at > 0 {
		at = (at - base.UnixMilli()) / 1000
	}
	w.Saw("%s: offset %d, epoch %d, timestamp %d, error %s", what, found.Offset, found.LeaderEpoch, at, checks.Or(found.Err))
	return found.Offset
}
