/// Applies publications of the session path to the tokens of new requests and to open tunnels (`close_upgraded_on`).
extension Shard {
    /// A publication for one user. On the shard's queue.
    package func receive(_ availability: AccessToken.Availability, for user: UserIndex) {
        tokens.receive(availability, for: user)
        endTunnels()
    }

    /// Sets the active user. On the shard's queue.
    package func activate(_ user: UserIndex?) {
        tokens.activate(user)
        endTunnels()
    }

    private func endTunnels() {
        guard !tunnels.isEmpty else { return }
        for client in Array(tunnels.values) {
            if let end = endOfTunnel(client) { client.endTunnel(end) }
        }
    }

    /// Why a tunnel must end; nil: it may go on.
    ///
    /// A new generation of the same session and an unreachable identity service are no reasons. Another account of the
    /// same user counts as a logout and as a switch. The session of the first account has then ended, and the route has
    /// another account.
    func endOfTunnel(_ client: ClientConnection) -> Tunnel.End? {
        guard let user = client.user, let route = client.route, let tunnel = client.tunnel else { return nil }
        let isAnother = tunnel.account != tokens.account(of: user)
        if route.closesOnLogout, isAnother || tokens.isSessionOver(user) { return .logout }
        guard route.closesOnSwitch else { return nil }
        if isAnother { return .switched }
        if route.user == nil, let active = tokens.active, active != user { return .switched }
        return nil
    }
}
