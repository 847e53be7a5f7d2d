package config

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		c    Config
		want string
	}{
		{Config{}, ""},
		{Config{Addr: "localhost:0"}, ""},
		{Config{Addr: "[::1]:80"}, ""},
		{Config{Addr: "8080"}, "use host:port"},
		{Config{Addr: ":8080"}, "--allow-remote"},
		{Config{Addr: "0.0.0.0:8080"}, "--allow-remote"},
		{Config{Addr: "lab.example:8080"}, "--allow-remote"},
		{Config{Addr: ":8080", AllowRemote: true}, ""},
		{Config{Parallel: -1}, "1 or more"},
	} {
		err := test.c.Check()
		if test.want != "" {
			require.ErrorContains(t, err, test.want)
			continue
		}
		require.NoError(t, err)
		require.True(t, filepath.IsAbs(test.c.Data))
	}
}
