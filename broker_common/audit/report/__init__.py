"""What an audit tells: `verdict` for programs and terminals, `page` as one HTML file for a commissioner."""
