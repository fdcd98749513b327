/// What the session path publishes, for the tokens of new requests and for the tunnels of old ones (`close_upgraded_on`).
extension Shard {
    /// A publication for one user. On the shard's queue.
    package func receive(_ availability: AccessToken.Availability, for user: UserIndex) {
        tokens.receive(availability, for: user)
        endTunnels()
    }

    /// The user that routes without one of their own follow from now on. On the shard's queue.
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

    /// Why a tunnel is not to go on; nil lets it. A new generation of the same session is no reason, nor is an identity service that
    /// does not answer. Another account of the same user is both: the session of the first one is over, and the route has got somebody else.
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
