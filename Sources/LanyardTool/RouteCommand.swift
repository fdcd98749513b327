import ArgumentParser
import Lanyard
import LanyardClient
import LanyardConfiguration
import LanyardFoundations

/// `lanyard route`: which route, user and upstream a request would get, or why it would be refused. Exit 0 if it would be forwarded, 1 if
/// not, 78 for a wrong configuration, 64 for wrong arguments.
struct RouteCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "route", abstract: "Say which route a request would take, or why it would be refused.",
        usage: "lanyard route [METHOD] URL [--host HOST] [--header FIELD]… [--json] --config PATH",
        discussion: """
            The request path itself decides; nothing is connected. A URL goes to the listener of its port, a path to the first listener. \
            The check of capabilities, peers and client certificates is left out. Configuration flags are those of run.
            """)

    @Argument(help: "The method; GET if it is left out.")
    var method: String

    @Argument(help: "A path such as /orders/1, or a URL as the client writes it.")
    var url: String

    @Option(help: ArgumentHelp("The Host field, if it is not the URL's host.", valueName: "host"))
    var host: String?

    @Option(
        name: .customLong("header"),
        help: ArgumentHelp("A further field, such as 'Upgrade: websocket'; may be repeated.", valueName: "field"))
    var fields: [String] = []

    @Flag(help: "Print one JSON document, for programs.")
    var json = false

    @Argument(parsing: .allUnrecognized, help: ArgumentHelp("Configuration flags.", valueName: "flags"))
    var flags: [String] = []

    /// The command line with the configuration flags of `route` at its end, and with GET for a method that is left out: the parser takes
    /// flags that it does not know behind the method and the URL only.
    ///
    /// - Throws: 64 if the URL is missing. The parser would take the value of a configuration flag for it.
    static func prepared(_ arguments: [String]) throws -> [String] {
        guard arguments.first == configuration.commandName else { return arguments }
        var words: [String] = []
        var flags: [String] = []
        var rest = arguments[...]
        while let word = rest.popFirst() {
            guard let flag = ConfigurationFlag.all.first(where: { word == $0.name || word.hasPrefix($0.name + "=") })
            else {
                words.append(word)
                continue
            }
            flags.append(word)
            if word == flag.name, flag.value != .boolean, let value = rest.popFirst() { flags.append(value) }
        }
        return try withMethod(words) + flags
    }

    /// A single word with a slash or a question mark is a URL without its method.
    private static func withMethod(_ words: [String]) throws -> [String] {
        var places: [Int] = []
        var index = 1
        while index < words.count {
            if ["--host", "--header"].contains(words[index]) {
                index += 1
            } else if !words[index].hasPrefix("-") {
                places.append(index)
            }
            index += 1
        }
        guard places.count <= 1, !words.contains(where: { ["-h", "--help"].contains($0) }) else { return words }
        guard let place = places.first else {
            throw CommandFailure.usage(
                "lanyard route: a URL is missing", "give a path such as /orders/1, or a URL as the client writes it")
        }
        guard words[place].contains(where: { "/?".contains($0) }) else {
            throw CommandFailure.usage(
                "lanyard route: no URL follows \(ConfigurationText.quoted(words[place]))",
                "give a path such as /orders/1, or a URL as the client writes it")
        }
        return words[..<place] + ["GET"] + words[place...]
    }

    func run() throws {
        let configuration = try Report.usable(flags).configuration
        let outcome = try outcome(configuration)
        if json {
            printDocument(outcome)
            if case .refused = outcome { throw ExitCode(1) }
            return
        }
        switch outcome {
        case .forwarded(let forwarding): report(forwarding)
        case .respondsItself: Report.output("Lanyard responds itself, with 200 and no body")
        case .refused(let status, let problem, let detail, let route):
            if let route { Report.output("route:    \(route)") }
            Report.output("refused:  \(status) \(problem)")
            Report.output("because:  \(detail)")
            throw ExitCode(1)
        }
    }

    private func outcome(_ configuration: Configuration) throws -> RoutePreview.Outcome {
        do throws(RoutePreview.PreviewError) {
            return try RoutePreview(configuration).outcome(method: method, url: url, host: host, fields: fields)
        } catch {
            switch error {
            case .unusable(let message): Report.error("error: \(message)")
            }
            throw ExitCode(64)
        }
    }

    /// One shape for all outcomes: what does not apply is `null`.
    private func printDocument(_ outcome: RoutePreview.Outcome) {
        var forwarding: RoutePreview.Forwarding?
        var refusal: (status: Int, problem: String, detail: String)?
        var route: String?
        let word: String
        switch outcome {
        case .forwarded(let found): (word, forwarding, route) = ("forwarded", found, found.route)
        case .respondsItself: word = "responds_itself"
        case .refused(let status, let problem, let detail, let name):
            (word, refusal, route) = ("refused", (status, problem, detail), name)
        }
        let upgrade: (name: String?, reason: String?) =
            switch forwarding?.upgrade {
            case .forwarded(let name): (name, nil)
            case .dropped(let reason): (nil, reason)
            case nil: (nil, nil)
            }
        JSONDocument.print { document in
            document.member("outcome", word)
            document.member("route", route)
            document.member("user", forwarding?.user)
            document.member("follows_active_user", forwarding?.followsActiveUser ?? false)
            document.member("token", forwarding?.token)
            document.member("upstream", forwarding?.upstream)
            document.member("target", forwarding?.target)
            document.member("field", forwarding?.field)
            document.member("upgrade", upgrade.name)
            document.member("upgrade_dropped", upgrade.reason)
            document.member("status", refusal?.status)
            document.member("problem", refusal?.problem)
            document.member("detail", refusal?.detail)
        }
    }

    private func report(_ forwarding: RoutePreview.Forwarding) {
        let user =
            switch (forwarding.user, forwarding.followsActiveUser) {
            case (let user?, false): user
            case (let user?, true): "the active user (\(user), until another one is activated)"
            case (nil, _): "the active user (none is configured)"
            }
        Report.output("route:    \(forwarding.route)")
        Report.output("user:     \(user)")
        if let token = forwarding.token { Report.output("token:    \(token)") }
        Report.output("upstream: \(forwarding.upstream)")
        Report.output("target:   \(forwarding.target)")
        Report.output("field:    \(forwarding.field)")
        switch forwarding.upgrade {
        case .forwarded(let name): Report.output("upgrade:  \(name)")
        case .dropped(let reason): Report.output("upgrade:  dropped: \(reason)")
        case nil: break
        }
    }
}
