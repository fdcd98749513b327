import LanyardFoundations
import LanyardSettings

/// `routes[].proxy` and `identities.*.proxy`.
extension ConfigurationBuilder {
    /// The port of a proxy that a variable names without one, as in libcurl.
    private static let portOfVariables: UInt16 = 1080

    /// Reads a route's proxy, and reports what no request could pass it with.
    ///
    /// - Returns: the variables of the environment decide.
    mutating func readProxy(
        _ section: ConfigurationSection, _ upstream: inout UpstreamSettings, of route: RouteSettings, shown: String
    ) -> Bool {
        let readsVariables = section.text("proxy") == "environment"
        guard section.has("proxy"), section.text("proxy") != "none" else { return false }
        guard case .tcp(let host, _, let isTLS) = upstream.endpoint else {
            if !readsVariables, !section.isUnread("proxy") {
                reportError(
                    section.place("proxy"), "\(shown).proxy: a unix socket is reached without a proxy",
                    remedy: "remove proxy")
            }
            return readsVariables
        }
        if readsVariables {
            guard let choice = proxies.choice(forHost: host, isTLS: isTLS) else { return true }
            upstream.proxy = proxy(choice, section, shown: shown)
        } else {
            upstream.proxy = configuredProxy(section.section("proxy"), shown: "\(shown).proxy")
        }
        if let proxy = upstream.proxy { checkProxy(proxy, section, upstream, route, shown: shown) }
        return readsVariables
    }

    /// Reads an identity's proxy. libcurl reads the variables.
    mutating func readProxy(_ section: ConfigurationSection, _ identity: inout IdentitySettings, shown: String) {
        if section.text("proxy") == "environment" { identity.proxy = .environment }
        let proxy = section.section("proxy")
        guard let url = proxy.text("url") else { return }
        identity.proxy = .url(url)
        identity.proxyCredentialsFile = requiredFile(
            proxy, "credentials_file", shown: "\(shown).proxy", isPrivate: true)
    }

    private mutating func configuredProxy(_ section: ConfigurationSection, shown: String) -> UpstreamSettings.Proxy? {
        guard var proxy = section.text("url").flatMap({ try? URLText.proxy($0) }) else { return nil }
        if section.has("credentials_file") || section.has("credentials_credential") {
            proxy.credentialsFile = secret(
                section, "credentials_file", shown: shown, form: .any, meanwhile: "the route's requests get 502")
        }
        return proxy
    }

    /// The proxy that a variable names. Its value may hold a password: with an @ nothing of it is shown.
    private mutating func proxy(
        _ choice: ProxyEnvironment.Choice, _ section: ConfigurationSection, shown: String
    ) -> UpstreamSettings.Proxy? {
        let url = choice.url.contains("://") ? choice.url : "http://\(choice.url)"
        do throws(ConfigurationValue.ValueError) {
            return try URLText.proxy(url, defaultPort: Self.portOfVariables)
        } catch {
            let isSecret = choice.url.utf8.contains(UInt8(ascii: "@"))
            reportError(
                section.place("proxy"), "\(shown).proxy: the variable \(choice.variable): \(error.message)",
                remedy: isSecret
                    ? "write the proxy as {url: …, credentials_file: …}: no variable holds a password" : error.remedy)
            return nil
        }
    }

    private mutating func checkProxy(
        _ proxy: UpstreamSettings.Proxy, _ section: ConfigurationSection, _ upstream: UpstreamSettings,
        _ route: RouteSettings, shown: String
    ) {
        let place = section.place("proxy")
        let reach = AddressText.reach(proxy.host)
        if reach == .linkLocal, !upstream.allowsLinkLocal, !section.isUnread("allow_link_local") {
            reportError(
                place, "\(shown).proxy: \(proxy.host) is an address of metadata services, such as link-local ones",
                remedy: place.adding("allow_link_local: true", to: "routes[]") + " if that is intended")
        }
        if upstream.zone != nil {
            reportError(
                section.place("upstream"),
                "\(shown).upstream: its zone is an interface of this machine, not of the proxy",
                remedy: "remove proxy, or name the upstream")
        }
        guard case .tcp(let host, _, tls: false) = upstream.endpoint else { return }
        let isReported = AddressText.reach(host) != .loopback
        if reach != .loopback, !isReported, !upstream.allowsPlain, !section.isUnread("unsafe_plain") {
            reportError(
                place, "\(shown).proxy: plain http would show tokens on the network path to \(proxy.host)",
                remedy: place.adding("unsafe_plain: true", to: "routes[]", flag: "--unsafe-plain")
                    + " if that way is safe")
        }
        if upstream.httpVersion == .http2 {
            reportError(
                section.place("protocol"), "\(shown).protocol: http2 without TLS cannot pass a proxy",
                remedy: "use https, or write protocol: http1")
        }
        if route.host != .upstream {
            reportError(
                section.place("host"),
                "\(shown).host: a proxy sends the Host of the upstream's URL in place of another one",
                remedy: "use https, or remove host")
        }
    }
}
