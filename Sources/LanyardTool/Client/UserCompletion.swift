import ArgumentParser
import Glibc
import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import LanyardSettings

/// The names of the users of the running Lanyard, for the completions of shells.
enum UserCompletion {
    /// A shell waits for it.
    private static let timeout = Duration.seconds(1)

    /// Of an argument that is a user's name.
    static let kind = CompletionKind.custom { words, _, _ in names(words) }

    /// - Parameter words: of the command line; `--admin` and `--config` in it name the running Lanyard.
    private static func names(_ words: [String]) -> [String] {
        guard let address = address(words) else { return [] }
        let client = AdminClient(address, token: nil).limited(to: timeout)
        guard let users = try? client.json("GET", "/v1/users") else { return [] }
        return UserReport.list(users).map(\.name).filter(ConfiguredName.isValid)
    }

    /// Over TCP the API asks for a token, which no completion reads.
    private static func address(_ words: [String]) -> ListenerSettings.Address? {
        let found: ListenerSettings.Address?
        if let admin = value(of: "--admin", words) {
            found = try? AddressText.listenAddress(admin)
        } else {
            let endpoint = Configuration.adminEndpoint(
                arguments: value(of: "--config", words).map { ["--config", $0] } ?? [],
                environment: ProcessEnvironment.all(), uid: geteuid())
            found = if case .found(let place) = endpoint { place.address } else { nil }
        }
        guard case .unix? = found else { return nil }
        return found
    }

    private static func value(of flag: String, _ words: [String]) -> String? {
        for (index, word) in words.enumerated() {
            if word == flag, index + 1 < words.count { return words[index + 1] }
            if word.hasPrefix(flag + "=") { return String(word.dropFirst(flag.count + 1)) }
        }
        return nil
    }
}
