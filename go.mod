module github.com/mcprt/mcprt

go 1.26.0

require (
	github.com/agnivade/levenshtein v1.2.2 // indirect
	github.com/goccy/go-json v0.12.0 // indirect
	github.com/gofrs/flock v0.13.2 // indirect
	github.com/mark3labs/mcp-go v1.2.1 // indirect
	github.com/tailscale/hujson v0.0.0-20260727124030-b80ff77dac4f // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
