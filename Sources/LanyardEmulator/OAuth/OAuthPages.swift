import FlyingFox

/// The two pages of the OAuth side: the login of the authorization endpoint, and the approval of a device.
struct OAuthPages {
    let state: ServiceState
    let request: HTTPRequest
    let issuer: String

    // MARK: The login page

    func showAuthorize(_ query: OAuthForm) async throws(OAuthError) -> ClientAPI.Reply {
        do throws(ServiceState.AuthorizationError) {
            let (id, authorization) = try await state.beginAuthorization(query)
            return (loginPage(id, authorization, name: authorization.loginHint, problem: nil), nil)
        } catch {
            switch error {
            case .shown(let error): throw error
            case .redirected(let error, let target, let state):
                let fields = [("error", error.code), ("error_description", error.text)]
                return (redirect(302, target, fields, state), nil)
            }
        }
    }

    /// The form of the login page.
    func authorize(_ form: OAuthForm) async throws(OAuthError) -> ClientAPI.Reply {
        let ended = OAuthError.invalidRequest("this login has ended, or was never begun; begin it again at the client")
        guard let id = form["id"], let authorization = await state.authorizationPage(id) else { throw ended }
        var userID: String?
        if form["action"] != "deny" {
            do throws(OAuthError) {
                userID = try await state.verifiedUser(form["username"] ?? "", form["password"] ?? "")
            } catch {
                return (loginPage(id, authorization, name: form["username"], problem: error.text), nil)
            }
        }
        guard let decision = await state.decidePage(id, userID) else { throw ended }
        let fields =
            decision.code.map { [("code", $0)] } ?? [
                ("error", "access_denied"), ("error_description", "the user has denied the login"),
            ]
        return (redirect(303, decision.request.redirectURI, fields, decision.request.state), userID)
    }

    private func loginPage(
        _ id: String, _ authorization: AuthorizationRequest, name: String?, problem: String?
    ) -> EmulatorResponse {
        let scopes =
            authorization.scopes.isEmpty ? "" : " with the scopes " + authorization.scopes.joined(separator: " ")
        return page(
            problem == nil ? 200 : 401, "Log in", problem,
            """
            <p>The client <b>\(Self.escaped(authorization.clientID))</b> asks for access\(Self.escaped(scopes)). \
            Then the browser goes to <b>\(Self.escaped(authorization.redirectURI))</b>.</p>
            <form method="post" action="authorize">
            <input type="hidden" name="id" value="\(Self.escaped(id))">
            \(Self.credentials(name))
            <button name="action" value="approve">Log in</button>
            <button name="action" value="deny" formnovalidate>Refuse</button>
            </form>
            """)
    }

    /// Sends the browser back to the client, with `state` and the issuer (RFC 9207).
    private func redirect(
        _ status: Int, _ target: String, _ fields: [(String, String)], _ state: String?
    ) -> EmulatorResponse {
        let all = fields + (state.map { [("state", $0)] } ?? []) + [("iss", issuer)]
        let query = all.map { $0.0 + "=" + OAuthForm.encode($0.1) }.joined(separator: "&")
        let location = target + (target.contains("?") ? "&" : "?") + query
        return EmulatorResponse(status, fields: [("Location", location), ("Cache-Control", "no-store")])
    }

    // MARK: The device's page

    func showVerify(_ query: OAuthForm) async -> ClientAPI.Reply {
        let code = query["user_code"]
        let login = if let code { await state.waitingDevice(code) } else { nil as DeviceLogin? }
        return (verifyPage(200, code, login, name: nil, problem: nil), nil)
    }

    /// The form of the device's page.
    func verify(_ form: OAuthForm) async -> ClientAPI.Reply {
        let code = form["user_code"], name = form["username"]
        guard let code, let login = await state.waitingDevice(code) else {
            let problem = "No login waits with this code. It may have expired or been decided."
            return (verifyPage(400, code, nil, name: name, problem: problem), nil)
        }
        do throws(OAuthError) {
            let userID = try await state.verifiedUser(name ?? "", form["password"] ?? "")
            let isApproved = form["action"] != "deny"
            // It may have been decided since.
            guard await state.decideDevice(login.userCode, isApproved ? userID : nil) != nil else {
                let problem = "Another window has decided this login."
                return (verifyPage(400, code, nil, name: name, problem: problem), nil)
            }
            let text = isApproved ? "The device is logged in." : "The login is refused."
            return (page(200, "Device", nil, "<p>\(text) This page can be closed.</p>"), userID)
        } catch {
            return (verifyPage(401, code, login, name: name, problem: error.text), nil)
        }
    }

    private func verifyPage(
        _ status: Int, _ code: String?, _ login: DeviceLogin?, name: String?, problem: String?
    ) -> EmulatorResponse {
        let who =
            login.map { login in
                let scopes = login.scopes.isEmpty ? "" : " with the scopes " + login.scopes.joined(separator: " ")
                return
                    "<p>The client <b>\(Self.escaped(login.clientID))</b> asks for access\(Self.escaped(scopes)).</p>"
            } ?? ""
        return page(
            status, "Device", problem,
            """
            \(who)
            <form method="post" action="device">
            <label>Code that the device shows
            <input name="user_code" value="\(Self.escaped(code ?? ""))" autocomplete="off" required></label>
            \(Self.credentials(name))
            <button name="action" value="approve">Approve</button>
            <button name="action" value="deny">Refuse</button>
            </form>
            """)
    }

    // MARK: HTML

    private static func credentials(_ name: String?) -> String {
        """
        <label>User <input name="username" value="\(escaped(name ?? ""))" autocomplete="username" required></label>
        <label>Password
        <input name="password" type="password" autocomplete="current-password" required></label>
        """
    }

    /// - Parameters:
    ///   - problem: shown above the form, as text.
    ///   - body: HTML.
    private func page(_ status: Int, _ title: String, _ problem: String?, _ body: String) -> EmulatorResponse {
        let alert = problem.map { "<p role=\"alert\"><b>\(Self.escaped($0))</b></p>\n" } ?? ""
        let html = """
            <!DOCTYPE html>
            <html lang="en">
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width">
            <title>\(title) – lanyard-emulator</title>
            <style>body{font:1rem/1.5 sans-serif;max-width:30rem;margin:3rem auto;padding:0 1rem}
            label{display:block;margin:.5rem 0}input{display:block;width:100%;box-sizing:border-box;font:inherit}
            button{font:inherit;margin:.5rem .5rem 0 0}</style>
            <h1>\(title)</h1>
            \(alert)\(body)
            <p><small>lanyard-emulator, a stand-in for development and tests.</small></p>
            </html>

            """
        return EmulatorResponse(
            status,
            fields: [
                ("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store"),
                ("Referrer-Policy", "no-referrer"), ("X-Frame-Options", "DENY"),
                ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
            ], body: html)
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
            .replacing("\"", with: "&quot;").replacing("'", with: "&#39;")
    }
}
