import ArgumentParser
import Foundation

/// `lanyard-emulator mail`: what a user would find in a mail.
struct MailCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mail",
        abstract: "Prints the tokens of the newest mail that a running emulator has sent to EMAIL.",
        discussion:
            """
            Confirmation and reset need both tokens. Exit status: 0, 1 without a mail, 69 if no emulator responds, 74 if \
            the output cannot be written.
            """
    )

    @Argument(help: "The address as it was registered.")
    var email: String

    @Option(help: "The emulator: http://HOST:PORT or unix:/PATH.")
    var emulator = "http://127.0.0.1:7490"

    @Option(help: "The client app id; without it, mails of every app count.")
    var app: String?

    @Flag(help: "Print one JSON object.")
    var json = false

    /// A mail as `/emulator/mails` lists it.
    private struct Mail: Decodable {
        let kind: String
        let token: String
        let tokenID: String
        let url: String?

        enum CodingKeys: String, CodingKey {
            case kind, token, url
            case tokenID = "token_id"
        }
    }

    func run() throws {
        guard let mail = try newest() else {
            Self.report(
                "there is no mail to \(email); mails are of apps whose seed has confirmation: email, --demo has none")
            throw ExitCode(1)
        }
        CommandOutput.print(json ? Self.json(mail) : Self.lines(mail))
    }

    private func newest() throws -> Mail? {
        do throws(EmulatorClient.CallError) {
            let query = [("email", email)] + (app.map { [("app", $0)] } ?? [])
            let data = try EmulatorClient(emulator).get("/emulator/mails", query: query)
            guard let mails = try? JSONDecoder().decode([Mail].self, from: data) else {
                throw .refused("its list of mails cannot be read")
            }
            return mails.last
        } catch {
            Self.report("\(error)")
            switch error {
            case .url: throw ExitCode(64)
            case .unreachable: throw ExitCode(69)
            case .refused: throw ExitCode(70)
            }
        }
    }

    private static func lines(_ mail: Mail) -> String {
        let lines = ["kind: \(mail.kind)", "token: \(mail.token)", "tokenId: \(mail.tokenID)"]
        return (lines + (mail.url.map { ["url: \($0)"] } ?? [])).map(printable).joined(separator: "\n")
    }

    /// A server that is no emulator may have sent what a terminal would execute, or show in another order.
    private static func printable(_ line: String) -> String {
        String(
            String.UnicodeScalarView(
                line.unicodeScalars.map { scalar in
                    switch scalar.properties.generalCategory {
                    case .control, .format, .lineSeparator, .paragraphSeparator, .unassigned, .surrogate: "?"
                    default: scalar
                    }
                }))
    }

    private static func json(_ mail: Mail) -> String {
        var members = ["kind": mail.kind, "token": mail.token, "tokenId": mail.tokenID]
        members["url"] = mail.url
        let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes]
        // Texts cannot fail.
        let data = (try? JSONSerialization.data(withJSONObject: members, options: options)) ?? Data()
        return String(decoding: data, as: UTF8.self)
    }

    private static func report(_ sentence: String) {
        CommandOutput.log("error: \(sentence)")
    }
}
