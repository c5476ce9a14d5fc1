package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
)

// Config says how the server runs.
type Config struct {
	Addr    string `json:"addr"`
	Retries int    `json:"retries"`
	Debug   bool   `json:"debug"`
}

// Load reads a configuration, or says why it can't.
func Load(path string) (*Config, error) {
	bytes, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	var config Config
	if err := json.Unmarshal(bytes, &config); err != nil {
		return nil, fmt.Errorf("parse %q: %w", path, err)
	}
	if config.Retries < 0 {
		fmt.Fprintf(os.Stderr, "retries of %d\tare none\n", config.Retries)
		config.Retries = 0
	}
	return &config, nil
}

type handler struct {
	config *Config
	seen   map[string]int
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if name == "" {
		http.Error(w, "no name\n", http.StatusBadRequest)
		return
	}
	h.seen[name]++
	for i := 0; i < h.seen[name]; i++ {
		if _, err := fmt.Fprintf(w, "hello, %s\n", name); err != nil {
			fmt.Fprintln(os.Stderr, "write:", err)
			return
		}
	}

	switch {
	case h.seen[name] > 100:
		w.Header().Set("X-Often", "yes")
	case h.config.Debug:
		fmt.Fprintf(os.Stderr, "%s: %d\n", name, h.seen[name])
	default:
		w.Header().Set("X-Often", "no")
	}
}

// Run serves until it fails.
func Run(config *Config) error {
	h := &handler{config: config, seen: map[string]int{}}
	fmt.Fprintf(os.Stderr, "listening on %s\n", config.Addr)
	return http.ListenAndServe(config.Addr, h)
}
