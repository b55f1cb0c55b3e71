package fleet

// Result is what a run measured.
type Result struct {
	Address string `json:"address"`
	Streams int    `json:"streams"`
	// Full is how many streams got a whole configuration, with so many clusters each.
	Full               int     `json:"streams_full"`
	ClustersPerStream  float64 `json:"clusters_per_stream"`
	EndpointsPerStream float64 `json:"endpoints_per_stream"`

	// Connect runs from before the dial to the server's first answer, FirstFull from there to the whole
	// configuration, and AllFullMS is until the last stream has its own.
	Connect   Dist    `json:"connect"`
	FirstFull Dist    `json:"first_full"`
	AllFullMS float64 `json:"all_full_ms"`
	// StartBytes and StartMessages are those of the whole configuration, for each stream.
	StartBytes    float64          `json:"start_bytes_per_stream"`
	StartMessages float64          `json:"start_messages_per_stream"`
	StartByType   map[string]int64 `json:"start_bytes_by_type"`

	Flips FlipResult `json:"flips"`

	// Processes are the server's, by name, and Generator is this one.
	Processes map[string]ProcessResult `json:"processes"`
	Generator GeneratorResult          `json:"generator"`

	Reconnects []ReconnectResult `json:"reconnects,omitempty"`
	Resume     *ResumeResult     `json:"resume,omitempty"`
	Slow       *SlowResult       `json:"slow,omitempty"`
	Refused    int64             `json:"refused"`
	// Errors are some of the reasons why streams ended, of so many.
	StreamErrors int      `json:"stream_errors"`
	Errors       []string `json:"errors,omitempty"`

	// Endpoints are what each stream held before the flips, as node → "service address:port health",
	// sorted.
	Endpoints map[string][]string `json:"endpoints,omitempty"`
}

// Failed says that a stream did not get what it was owed.
func (r *Result) Failed() bool {
	return r.Full < r.Streams || r.Flips.Missed > 0 || r.StreamErrors > 0 || r.Slow != nil && r.Slow.CaughtUp < r.Slow.Streams
}

// FlipResult is about the measured flips.
type FlipResult struct {
	N int `json:"n"`
	// Missed counts streams that did not see a flip in time, over all flips and the warm-up.
	Missed int `json:"missed"`
	// Any is of every stream and flip, Last of the last stream of each flip, First of the first. They
	// begin before the write to Consul, which takes Write.
	Any   Dist `json:"any_stream"`
	Last  Dist `json:"last_stream"`
	First Dist `json:"first_stream"`
	Write Dist `json:"write"`
	// Bytes and Messages are for each flip and stream.
	Bytes    float64 `json:"bytes_per_stream"`
	Messages float64 `json:"messages_per_stream"`
}

// ProcessResult is what a process of the server took.
type ProcessResult struct {
	// RSS is in KiB: before the streams, when all are configured, after they settled, after the flips.
	Before    float64 `json:"rss_before_kib"`
	Connected float64 `json:"rss_connected_kib"`
	Settled   float64 `json:"rss_settled_kib"`
	Flipped   float64 `json:"rss_flipped_kib"`
	// The processor time, in milliseconds: until all are configured, in a second in which nothing happens,
	// and for a flip with the pause after it.
	StartCPU float64 `json:"start_cpu_ms"`
	IdleCPU  float64 `json:"idle_cpu_ms_per_s"`
	FlipCPU  float64 `json:"flip_cpu_ms"`
}

// GeneratorResult is what this process took, in milliseconds of processor time.
type GeneratorResult struct {
	StartCPU float64 `json:"start_cpu_ms"`
	FlipCPU  float64 `json:"flip_cpu_ms"`
}

// ReconnectResult is about all streams cut and back.
type ReconnectResult struct {
	AllFullMS float64 `json:"all_full_ms"`
	FirstFull Dist    `json:"first_full"`
	Full      int     `json:"streams_full"`
}

// ResumeResult is about streams that came back with their versions, when nothing had changed.
type ResumeResult struct {
	// Bytes, MaxBytes and Messages are for each stream, until nothing came any more.
	Bytes     float64 `json:"bytes_per_stream"`
	MaxBytes  int64   `json:"bytes_max"`
	Messages  float64 `json:"messages_per_stream"`
	Resources float64 `json:"resources_per_stream"`
}

// SlowResult is about the streams that stopped reading.
type SlowResult struct {
	Streams int `json:"streams"`
	// CaughtUp is how many had the latest state in time after they began to read again, which took all
	// of them CatchUpMS.
	CaughtUp  int     `json:"caught_up"`
	CatchUpMS float64 `json:"catch_up_ms"`
}
