// Package pglocal finds an installed Postgres and runs a private cluster for one data directory, so that nobody has to
// set a database up.
//
// The cluster listens on a Unix socket only, so it never meets another Postgres on 5432. It lies in DATA/postgres and
// belongs to the caller. Postgres refuses to run as root, so for root it runs under the user postgres, or nobody; where
// that user can't enter the data directory (a home closed to others), the cluster lies in /var/lib/trinity-HASH
// instead, HASH being that of the data directory's path. DATA/postgres.json (mode 0600) records the place and the
// password. A postmaster left over by a killed server is taken over by the next Open.
package pglocal
