import CLinux
import Glibc
import LanyardFoundations

/// What git asks a credential helper (gitcredentials(7), git-credential(1)): lines `key=value` up to an empty line or the end.
package struct GitCredentialRequest: Equatable, Sendable {
    /// Of the remote's URL; empty: git has not said it.
    package private(set) var scheme = ""
    /// With its port.
    package private(set) var host = ""
    /// The user of the remote's URL; nil: it has none.
    package private(set) var username: String?

    /// The name that GitHub, GitLab and others take beside an OAuth access token.
    private static let defaultUsername = "oauth2"
    private static let bytesMax = 64 << 10

    /// The name in the response.
    package var shownUsername: String { username ?? Self.defaultUsername }

    /// Reads the lines. Keys that are not needed here are left out, a password among them.
    ///
    /// - Throws: `usage`: a line has no `=`, or a value has a byte that no URL has. git, or what was typed, is at fault.
    package init(_ input: Secret) throws(InputError) {
        try input.withBytes { bytes throws(InputError) in
            var rest = bytes[...]
            while !rest.isEmpty {
                var line = rest.prefix { $0 != 0x0a }
                rest = rest.dropFirst(line.count + 1)
                if line.last == 0x0d { line = line.dropLast() }
                if line.isEmpty { break }
                try take(line)
            }
        }
    }

    /// The remote is called without TLS on a network: a token in its request could be read there.
    package var isPlainBeyondLoopback: Bool {
        guard URLOrigin(of: "\(scheme)://\(host)")?.isTLS == false else { return false }
        // An IPv6 address is in brackets.
        let name = host.hasPrefix("[") ? host.prefix { $0 != "]" }.dropFirst() : host.prefix { $0 != ":" }
        return !(LoopbackName.matches(String(name)) || SocketAddress(host: String(name), port: 80)?.isLoopback == true)
    }

    private mutating func take(_ line: Slice<UnsafeRawBufferPointer>) throws(InputError) {
        guard let end = line.firstIndex(of: UInt8(ascii: "=")) else {
            throw InputError(
                .usage, "standard input is not the form of git's credential helpers: a line has no =",
                remedy: "let git run the command: it is a credential.helper, as lanyard token --help says")
        }
        let value = line[line.index(after: end)...]
        switch String(decoding: line[..<end], as: UTF8.self) {
        case "protocol": scheme = try Self.text(value)
        case "host": host = try Self.text(value)
        case "username": username = try Self.text(value)
        default: break
        }
    }

    private static func text(_ value: Slice<UnsafeRawBufferPointer>) throws(InputError) -> String {
        guard let text = String(validating: value, as: UTF8.self), !value.contains(where: { $0 < 0x20 || $0 == 0x7f })
        else {
            throw InputError(
                .usage, "a value of standard input has control characters or is not UTF-8",
                remedy: "correct the URL of the remote: git remote -v")
        }
        return text
    }

    /// Reads standard input up to its end.
    ///
    /// - Throws: `usage`: it cannot be read, or is too long.
    package static func ofStandardInput() throws(InputError) -> Secret {
        let descriptor = OwnedDescriptor(taking: dup(STDIN_FILENO))
        let input = try Secret(capacity: bytesMax + 1) { room throws(InputError) in
            try descriptor.read(into: room) {
                InputError(
                    .usage, "standard input cannot be read (\(Errno.text(of: $0)))",
                    remedy: "let git run the command, or give it an input")
            }
        }
        guard input.count <= bytesMax else {
            throw InputError(
                .usage, "standard input is larger than 64 KiB", remedy: "give the lines of git's credential helpers")
        }
        return input
    }
}
