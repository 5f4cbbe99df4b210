"""`tripartite lab serve`: the figures as pages to move sliders on, and local noise in three steps.

pages     the site's application           explainer  local noise, in the browser alone
commands  `lab serve`                      texts      sentences that people read
"""
