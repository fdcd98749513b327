import ArgumentParser
import CLinux
import Dispatch
import Foundation
import Glibc
import LanyardEmulator

extension RefreshRotation: ExpressibleByArgument {}

/// `lanyard-emulator`: the stand-in of the App Services client API as a program.
struct EmulatorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lanyard-emulator",
        abstract:
            """
            A stand-in of the App Services client API and, with --oauth, of an OAuth 2.0 server; a protected resource at \
            /protected/ and controls at /emulator/.
            """,
        discussion: "Holds everything in memory. For development and tests: its controls require no authentication.",
        subcommands: [ServeCommand.self, MailCommand.self], defaultSubcommand: ServeCommand.self
    )
}

/// `lanyard-emulator serve`, or no subcommand: the service. It runs until a signal ends it.
struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Runs the service until a signal ends it. It need not be named.")

    @Option(help: "Where to listen: 127.0.0.1:PORT, [::1]:PORT or unix:/PATH. Port 0 takes any free one.")
    var listen = "127.0.0.1:7490"

    @Option(help: "The client app id of the first app. Default: the first one of --seed, or demo-abcde.")
    var app: String?

    @Option(help: "A YAML file with apps, users and API keys that exist from the start.")
    var seed: String?

    @Flag(help: "All providers, with the conventions of the SDKs' test backends; not together with --seed.")
    var demo = false

    @Option(help: "A file that keeps users, sessions and tokens across starts. It holds secrets.")
    var snapshot: String?

    @Option(help: "A user that exists from the start, as EMAIL:PASSWORD-FILE. May be repeated.")
    var user: [String] = []

    @Option(help: "A server API key that exists from the start, as NAME:KEY-FILE. May be repeated.")
    var apiKey: [String] = []

    @Option(help: "Life of access tokens, such as 20s.")
    var accessTokenLifetime = DurationArgument(seconds: 1800)

    @Option(help: "Life of refresh tokens, such as 60d.")
    var refreshTokenLifetime = DurationArgument(seconds: 5_184_000)

    @Option(help: "Life of anonymous users' refresh tokens, such as 60d.")
    var anonymousRefreshTokenLifetime = DurationArgument(seconds: 1_576_800_000)

    @Option(help: "Whether session calls bring a new refresh token: none, grace or one_use.")
    var rotation = RefreshRotation.none

    @Option(help: "Under grace: how long the refresh token before may be repeated.")
    var rotationGrace = DurationArgument(seconds: 30)

    @Flag(help: "Revoking a user's sessions also ends the access tokens already issued.")
    var revokeEndsAccessTokens = false

    @Flag(help: "A logout also ends the access tokens of its session.")
    var logoutEndsAccessTokens = false

    @Flag(help: "Errors have the service's texts of before May 2024, which tell more than `unauthorized`.")
    var verboseTexts = false

    @Flag(help: "An OAuth 2.0 server at http://ADDRESS/oauth as well: client demo, secret demo-secret.")
    var oauth = false

    @Option(help: "With --oauth: a client, as ID:SECRET-FILE, or ID for a public one. May be repeated.")
    var oauthClient: [String] = []

    @Option(help: "With --oauth: a scope that exists; without it, all do. May be repeated.")
    var oauthScope: [String] = []

    @Option(help: "Life of device codes, such as 10m.")
    var deviceCodeLifetime = DurationArgument(seconds: 600)

    @Option(help: "The interval of a device's polls, such as 5s.")
    var deviceInterval = DurationArgument(seconds: 5)

    @Option(help: "Life of authorization codes, such as 60s.")
    var authorizationCodeLifetime = DurationArgument(seconds: 60)

    @Flag(help: "Every call of an existing app gets 410, as from the hosted service since its end.")
    var gone = false

    @Flag(help: "Refused links have a code and texts that realm-web does not repeat for ever.")
    var webLinkFailures = false

    func run() async throws {
        var options = EmulatorOptions()
        options.listen = listen
        options.seed = try seedFromFlags()
        options.oauth = try oauthFromFlags(options.seed)
        if options.oauth != nil, options.seed.users.isEmpty, seed == nil, !demo {
            options.seed.users.append(.init(email: "alice@example.com", password: "correct-horse"))
        }
        options.deviceCodeSeconds = deviceCodeLifetime.seconds
        options.deviceIntervalSeconds = deviceInterval.seconds
        options.authorizationCodeSeconds = authorizationCodeLifetime.seconds
        options.appID = app ?? options.seed.firstAppID ?? options.appID
        options.snapshotPath = snapshot
        options.verboseTexts = verboseTexts
        options.isGone = gone
        options.webLinkFailures = webLinkFailures
        options.anonymousRefreshTokenSeconds = anonymousRefreshTokenLifetime.seconds
        options.accessTokenSeconds = accessTokenLifetime.seconds
        options.refreshTokenSeconds = refreshTokenLifetime.seconds
        options.revokeEndsAccessTokens = revokeEndsAccessTokens
        options.logoutEndsAccessTokens = logoutEndsAccessTokens
        options.rotation = rotation
        options.rotationGraceSeconds = rotationGrace.seconds
        let emulator: Emulator
        do {
            emulator = try await Emulator.start(options)
        } catch {
            Self.log(["event": "listen.failed", "message": "\(error)"])
            // The same status as `lanyard` for an address that cannot be bound.
            throw ExitCode(69)
        }
        var line = ["event": "listening", "address": emulator.address, "app": options.appID]
        line["issuer"] = emulator.issuer
        Self.log(line)
        guard snapshot != nil else {
            // The emulator serves until a signal ends the process.
            while true { try await Task.sleep(for: .seconds(86_400)) }
        }
        let number = await Self.endingSignal()
        do {
            try await emulator.writeSnapshot()
        } catch {
            Self.log(["event": "snapshot.failed", "message": "\(error)"])
        }
        Self.end(by: number)
    }

    /// Ends the process as the signal would have. Dispatch blocks signals on its threads.
    private static func end(by number: CInt) {
        Glibc.signal(number, SIG_DFL)
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, number)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        raise(number)
    }

    /// Waits for SIGTERM or SIGINT.
    private static func endingSignal() async -> CInt {
        let (signals, stream) = AsyncStream<CInt>.makeStream()
        let sources = [SIGTERM, SIGINT].map { number in
            Glibc.signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { stream.yield(number) }
            source.activate()
            return source
        }
        var given = SIGTERM
        for await signal in signals {
            given = signal
            break
        }
        for source in sources { source.cancel() }
        return given
    }

    private func seedFromFlags() throws -> Seed {
        do {
            if demo, self.seed != nil { throw ValidationError("--demo and --seed exclude each other") }
            var seed = try self.seed.map(SeedReader.read) ?? (demo ? Seed.demo() : Seed())
            for entry in user {
                let (email, file) = try Self.split(entry, "--user EMAIL:PASSWORD-FILE")
                seed.users.append(.init(email: email, password: try SeedReader.secret(file)))
            }
            for entry in apiKey {
                let (name, file) = try Self.split(entry, "--api-key NAME:KEY-FILE")
                seed.keys.append(.init(name: name, key: try SeedReader.secret(file)))
            }
            return seed
        } catch let failure as SeedReader.ReadError {
            throw ValidationError(failure.description)
        }
    }

    /// - Returns: nil: neither the flags nor the configuration have an OAuth side.
    private func oauthFromFlags(_ seed: Seed) throws -> OAuthSettings? {
        guard oauth || seed.oauth != nil else {
            guard oauthClient.isEmpty, oauthScope.isEmpty else {
                throw ValidationError("--oauth-client and --oauth-scope need --oauth")
            }
            return nil
        }
        var settings = seed.oauth ?? OAuthSettings()
        if !oauthClient.isEmpty, seed.oauth == nil { settings.clients = [] }
        for entry in oauthClient {
            let client = try Self.client(entry)
            guard !settings.clients.contains(where: { $0.id == client.id }) else {
                throw ValidationError("client \(client.id) is there twice")
            }
            settings.clients.append(client)
        }
        for scope in oauthScope {
            guard OAuthSettings.isScope(scope) else { throw ValidationError("--oauth-scope: \(scope) is no scope") }
            settings.scopes = (settings.scopes ?? []) + [scope]
        }
        return settings
    }

    private static func client(_ entry: String) throws -> OAuthSettings.Client {
        var client = OAuthSettings.Client(id: entry)
        if entry.contains(":") {
            let (id, file) = try split(entry, "--oauth-client ID:SECRET-FILE")
            client.id = id
            do {
                client.secret = try SeedReader.secret(file)
            } catch let failure as SeedReader.ReadError {
                throw ValidationError(failure.description)
            }
            guard OAuthSettings.isPrintable(client.secret ?? "") else {
                throw ValidationError("\(file): a secret is printable ASCII, and not empty")
            }
        }
        guard OAuthSettings.isPrintable(client.id) else {
            throw ValidationError("--oauth-client: an id is printable ASCII, and not empty")
        }
        return client
    }

    private static func split(_ entry: String, _ form: String) throws -> (String, String) {
        guard let colon = entry.firstIndex(of: ":") else { throw ValidationError("expected \(form), not \(entry)") }
        return (String(entry[..<colon]), String(entry[entry.index(after: colon)...]))
    }

    /// Writes one JSON line to stderr.
    private static func log(_ members: [String: String]) {
        let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? JSONSerialization.data(withJSONObject: members, options: options) else { return }
        CommandOutput.log(String(decoding: data, as: UTF8.self))
    }
}

/// A duration with its unit, as in Lanyard's configuration: `500ms`, `20s`, `30m`, `12h`, `60d`.
struct DurationArgument: ExpressibleByArgument, CustomStringConvertible {
    let seconds: Double

    init(seconds: Double) { self.seconds = seconds }

    init?(argument: String) {
        let digits = argument.prefix { $0.isASCII && $0.isNumber }
        let units = ["ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400]
        guard let count = Double(digits), count > 0, let unit = units[String(argument.dropFirst(digits.count))] else {
            return nil
        }
        seconds = count * unit
    }

    var description: String { seconds == seconds.rounded() ? "\(Int(seconds))s" : "\(Int(seconds * 1000))ms" }
}
