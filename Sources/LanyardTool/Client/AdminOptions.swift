import ArgumentParser
import Glibc
import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import LanyardSettings

/// Where a command finds the admin API of the running Lanyard.
struct AdminOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The admin API: unix:/PATH or HOST:PORT. (default: that of --config, else of LANYARD_ADMIN_ADDRESS or LANYARD_CONFIG, "
                + "else admin.sock in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/lanyard or /run/lanyard, where it is)",
            valueName: "address"))
    var admin: String?

    @Option(
        help: ArgumentHelp("The configuration of the running Lanyard, which names the admin API.", valueName: "path"),
        completion: .file())
    var config: String?

    @Option(
        help: ArgumentHelp(
            "The admin token for an address HOST:PORT. (default: admin.token_file of the configuration)",
            valueName: "path"),
        completion: .file())
    var tokenFile: String?

    @Flag(
        help: "Send the admin token and passwords without encryption to an address that is not a loopback address.")
    var unsafePlainHttp = false

    func validate() throws {
        if admin != nil, config != nil { throw ValidationError("--admin and --config are two ways to say the same") }
        guard let admin else { return }
        do throws(ConfigurationValue.ValueError) {
            _ = try AddressText.listenAddress(admin)
        } catch {
            throw ValidationError("--admin: \(error.message); \(error.remedy)")
        }
    }

    /// Finds the address and the token. Nothing is connected.
    ///
    /// - Parameters:
    ///   - output: how responses are printed; nil: the command prints none.
    ///   - readsChangedFile: the configuration may be newer than the running Lanyard, as before a reload.
    func session(for output: OutputOptions? = nil, readsChangedFile: Bool = false) throws -> AdminSession {
        if output?.json == true { CommandFailure.printProblems() }
        return try makeSession(readsChangedFile)
    }

    private func makeSession(_ readsChangedFile: Bool) throws -> AdminSession {
        let place = try self.place(readsChangedFile)
        let startRemedy =
            readsChangedFile && admin == nil
            ? "start it with lanyard run; if admin.address was changed, restart Lanyard or give --admin with the former "
                + "address, because that key applies only at a start"
            : AdminSession.startRemedy
        guard case .tcp(_, let port) = place.address else {
            return AdminSession(
                AdminClient(place.address, token: nil), identities: place.identities, startRemedy: startRemedy)
        }
        guard port != 0 else {
            throw CommandFailure.usage(
                "the configuration leaves the admin port to the kernel",
                "give --admin the address that the log event listening names")
        }
        guard isOnThisMachine(place.address) || unsafePlainHttp else {
            throw CommandFailure.usage(
                "\(place.address) is no loopback address: the admin token and passwords would go there in plain HTTP, "
                    + "and the network in between could read them",
                "run the command on Lanyard's machine, or forward a port of this machine to it (ssh -L) and give that to --admin; "
                    + "if you trust that network, give --unsafe-plain-http")
        }
        guard let path = tokenFile ?? place.tokenFile else {
            throw CommandFailure.usage(
                "over TCP the admin API asks for a token", "give --token-file, or --config with admin.token_file")
        }
        let token = try CommandFailure.reported { () throws(InputError) in
            try SecretInput.read(path, as: .token, prompt: "Admin token")
        }
        // A line end would end the field in which it is sent.
        guard token.isVisibleASCII else {
            throw CommandFailure.input(
                InputError(
                    .file, "\(path) is not one word of visible ASCII",
                    remedy: "name the file that admin.token_file of the running Lanyard names"))
        }
        return AdminSession(
            AdminClient(place.address, token: token), identities: place.identities, startRemedy: startRemedy)
    }

    /// A wildcard address is called at the loopback address.
    private func isOnThisMachine(_ address: ListenerSettings.Address) -> Bool {
        guard case .tcp(let host, let port) = address else { return true }
        return SocketAddress(host: host, port: port).map { $0.isLoopback || $0.isWildcard } ?? false
    }

    private func place(_ readsChangedFile: Bool) throws -> AdminEndpoint.Place {
        if let admin { return AdminEndpoint.Place(address: try AddressText.listenAddress(admin)) }
        let endpoint = Configuration.adminEndpoint(
            arguments: config.map { ["--config", $0] } ?? [], environment: ProcessEnvironment.all(), uid: geteuid())
        switch endpoint {
        case .found(let place): return place
        case .off:
            throw CommandFailure.failed(
                "the configuration turns the admin API off (admin: off)",
                readsChangedFile
                    ? "if the running Lanyard has an admin API, restart it or give --admin with its address, because "
                        + "admin applies only at a start; without one, kill -HUP reloads"
                    : "remove that and restart Lanyard", exitCode: 78)
        case .unknown(let diagnostics): throw CommandFailure.configuration(diagnostics)
        }
    }
}

/// How a command prints what the admin API responds.
struct OutputOptions: ParsableArguments {
    @Flag(help: "Print the response of the admin API as it is, for programs, also if it is a problem.")
    var json = false
}

/// The user of a command, by default the active one.
struct UserOptions: ParsableArguments {
    @Argument(help: "The user's name. (default: the active user)", completion: UserCompletion.kind)
    var user: String?

    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
    @OptionGroup(title: "Output") var output: OutputOptions

    /// The session with the user's name. Without a name Lanyard is asked for the active user.
    func find() throws -> (session: AdminSession, name: String) {
        let session = try admin.session(for: output)
        return (session, try session.user(user))
    }
}
