import Glibc
import LanyardFoundations

/// The proxies that the environment names, by libcurl's rules: `http_proxy` in lower case alone, because a CGI program gets a client's
/// `Proxy` field as `HTTP_PROXY`; the others in lower case, else in upper case. An empty variable is none.
package struct ProxyEnvironment: Equatable, Sendable {
    /// What a variable says.
    package struct Choice: Equatable, Sendable {
        /// The name of the variable.
        package let variable: String
        /// Its value, which may hold a password.
        package let url: String
    }

    private let choices: (plain: Choice?, tls: Choice?)
    private let exceptions: NoProxyList

    /// - Parameter variables: all of the process.
    package init(_ variables: [String: String]) {
        func choice(_ names: [String]) -> Choice? {
            for name in names {
                if let value = variables[name], !value.isEmpty { return Choice(variable: name, url: value) }
            }
            return nil
        }
        let all = choice(["all_proxy", "ALL_PROXY"])
        choices = (choice(["http_proxy"]) ?? all, choice(["https_proxy", "HTTPS_PROXY"]) ?? all)
        exceptions = NoProxyList(choice(["no_proxy", "NO_PROXY"])?.url ?? "")
    }

    /// The proxy for an upstream; nil: it is reached without one.
    ///
    /// - Parameters:
    ///   - host: in canonical form, v6 without brackets.
    ///   - isTLS: the upstream's scheme is https.
    package func choice(forHost host: String, isTLS: Bool) -> Choice? {
        exceptions.contains(host) ? nil : isTLS ? choices.tls : choices.plain
    }

    package static func == (left: ProxyEnvironment, right: ProxyEnvironment) -> Bool {
        left.choices == right.choices && left.exceptions == right.exceptions
    }
}

/// `no_proxy`: the hosts that are reached without a proxy, as libcurl 7.86 and later read it.
///
/// | entry | matches |
/// |---|---|
/// | `*` as the whole list | every host |
/// | a name, a dot before or behind it ignored | the name and all names below it, in any case of letters |
/// | an address | that address |
/// | an address and `/bits` | the addresses of the network; `/0` is the address alone |
///
/// Commas and blanks separate entries. An entry with a port or with brackets matches nothing.
package struct NoProxyList: Equatable, Sendable {
    private struct Network: Equatable, Sendable {
        let address: [UInt8]
        let bits: Int

        func contains(_ other: [UInt8]) -> Bool {
            guard other.count == address.count else { return false }
            let (whole, rest) = (bits / 8, bits % 8)
            guard other[..<whole] == address[..<whole] else { return false }
            return rest == 0 || (other[whole] ^ address[whole]) >> (8 - rest) == 0
        }
    }

    private var isEveryHost = false
    /// In lower case, without a dot at either end.
    private var names: [String] = []
    private var networks: [Network] = []

    /// - Parameter text: the value of the variable.
    package init(_ text: String) {
        isEveryHost = text == "*"
        for entry in text.split(whereSeparator: { $0 == "," || $0 == " " || $0 == "\t" }) {
            if let network = Self.network(entry) { networks.append(network) }
            let name = Self.name(entry)
            if !name.isEmpty { names.append(name) }
        }
    }

    /// Whether a host is reached without a proxy.
    ///
    /// - Parameter host: a name or an address; v6 without brackets.
    package func contains(_ host: String) -> Bool {
        if isEveryHost { return true }
        if let address = Self.octets(host) { return networks.contains { $0.contains(address) } }
        var name = host.lowercased()
        if name.hasSuffix(".") { name.removeLast() }
        return names.contains { name == $0 || name.hasSuffix(".\($0)") }
    }

    private static func name(_ entry: Substring) -> String {
        var name = entry.lowercased()
        if name.hasSuffix(".") { name.removeLast() }
        if name.hasPrefix(".") { name.removeFirst() }
        return name
    }

    private static func network(_ entry: Substring) -> Network? {
        let parts = entry.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let address = octets(String(first)) else { return nil }
        guard parts.count == 2 else { return Network(address: address, bits: address.count * 8) }
        guard let bits = Int(parts[1]), 0...(address.count * 8) ~= bits else { return nil }
        return Network(address: address, bits: bits == 0 ? address.count * 8 : bits)
    }

    /// The bytes of a literal address; nil for a name.
    private static func octets(_ text: String) -> [UInt8]? {
        var v4 = in_addr()
        if inet_pton(AF_INET, text, &v4) == 1 { return withUnsafeBytes(of: v4) { Array($0) } }
        var v6 = in6_addr()
        if inet_pton(AF_INET6, text, &v6) == 1 { return withUnsafeBytes(of: v6) { Array($0) } }
        return nil
    }
}
