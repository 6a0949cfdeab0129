#pragma once

namespace driftgate::store {

class Connection;

/// Denies, on this connection and from now on, every UPDATE and DELETE of the log tables (entries,
/// tree_nodes, the index) and every DELETE of the signed head, every change of the schema, ATTACH, and PRAGMAs
/// that write. Installed after the migrations.
void install_log_guard(Connection& connection);

}  // namespace driftgate::store
